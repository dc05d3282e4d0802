public import WebSocketServing

extension QuoteServer {
  /// Live prices in a browser: products to choose, their prices, and a small chart of each.
  public static let page = PageShell.page(
    title: "Stock quotes",
    style: """
      table { width: 100%; margin-top: 1rem; border-collapse: collapse; }
      caption { text-align: left; color: var(--quiet); font-size: .875rem; padding-bottom: .25rem; }
      th, td { text-align: left; padding: .5rem .75rem .5rem 0; border-top: 1px solid var(--line); }
      th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; }
      td:last-child { text-align: right; padding-right: 0; }
      td.price { font-size: 1.25rem; font-weight: 600; }
      td.up { color: var(--good); } td.down { color: var(--bad); }
      svg { display: block; width: 10rem; max-width: 30vw; height: 2.5rem; }
      polyline { fill: none; stroke: var(--accent); stroke-width: 2; vector-effect: non-scaling-stroke; }
      .lost { opacity: .5; }
      #note { min-height: 1.5rem; margin: .5rem 0 0; color: var(--bad); }
      """,
    body: """
      <form id="add">
      <label>Product <input id="product" name="product" value="103" size="8" maxlength="32" autocomplete="off" required></label>
      <button>Watch</button>
      </form>
      <p id="note" role="alert"></p>
      <table>
      <caption>Prices as they come, with the last 60 of each</caption>
      <thead>
      <tr><th scope="col">Product</th><th scope="col" class="number">Price</th>
      <th scope="col" class="number">Change</th><th scope="col">Chart</th><td></td></tr>
      </thead>
      <tbody id="rows"></tbody>
      </table>
      """,
    script: """
      const prefix = "trading.product.";
      const rows = document.getElementById("rows");
      const note = document.getElementById("note");
      const watched = new Map();
      let socket = null;
      let isGreeted = false;

      function cell(row, className) {
        const cell = row.insertCell();
        cell.className = className;
        return cell;
      }

      function watch(product) {
        if (watched.has(product)) return;
        const row = rows.insertRow();
        const name = document.createElement("th");
        name.scope = "row";
        name.textContent = product;
        row.append(name);
        const entry = {
          row, prices: [], price: cell(row, "number price"), change: cell(row, "number"), chart: cell(row, "")
        };
        const button = document.createElement("button");
        button.type = "button";
        button.className = "plain";
        button.textContent = "Remove";
        button.setAttribute("aria-label", "Remove product " + product);
        button.onclick = () => { watched.delete(product); row.remove(); };
        cell(row, "").append(button);
        entry.price.textContent = "–";
        watched.set(product, entry);
        request(product);
      }

      function request(product) {
        if (isGreeted) socket.send(JSON.stringify({ subscribeTo: prefix + product }));
      }

      function draw(entry, product) {
        const prices = entry.prices;
        const low = Math.min(...prices), high = Math.max(...prices), span = high - low || 1;
        const space = "http://www.w3.org/2000/svg";
        const chart = document.createElementNS(space, "svg");
        chart.setAttribute("viewBox", "0 0 59 20");
        chart.setAttribute("preserveAspectRatio", "none");
        chart.setAttribute("role", "img");
        chart.setAttribute("aria-label", "Product " + product + ": from " + low + " to " + high);
        const line = document.createElementNS(space, "polyline");
        line.setAttribute("points", prices.map((price, index) =>
          (59 - prices.length + 1 + index) + "," + (19 - 18 * (price - low) / span)).join(" "));
        chart.append(line);
        entry.chart.replaceChildren(chart);
      }

      function show(product, text) {
        const entry = watched.get(product);
        const price = Number(text);
        if (!entry || !Number.isFinite(price)) return;
        const last = entry.prices.at(-1);
        entry.prices.push(price);
        if (entry.prices.length > 60) entry.prices.shift();
        entry.row.classList.remove("lost");
        entry.price.textContent = text;
        const change = last === undefined ? 0 : price - last;
        entry.change.textContent = (change > 0 ? "+" : change < 0 ? "−" : "±") + Math.abs(change);
        entry.change.className = "number " + (change > 0 ? "up" : change < 0 ? "down" : "");
        draw(entry, product);
      }

      document.getElementById("add").onsubmit = event => {
        event.preventDefault();
        const field = document.getElementById("product");
        note.textContent = "";
        if (field.value.trim()) watch(field.value.trim());
        field.select();
      };

      openSocket({
        open(opened) { socket = opened; },
        message(text) {
          let message;
          try { message = JSON.parse(text); } catch { return; }
          switch (message.t) {
          case "connect.connected":
            isGreeted = true;
            for (const product of watched.keys()) request(product);
            break;
          case "trading.quote":
            show(String(message.body.securityId), String(message.body.currentPrice));
            break;
          case "connect.failed": {
            const product = (message.subscribeTo || "").slice(prefix.length);
            const entry = watched.get(product);
            if (entry) { watched.delete(product); entry.row.remove(); }
            note.textContent = "There is no product " + product + ".";
            break;
          }
          }
        },
        closed() {
          isGreeted = false;
          for (const entry of watched.values()) entry.row.classList.add("lost");
        }
      });
      for (const product of ["100", "101", "102"]) watch(product);
      """)
}
