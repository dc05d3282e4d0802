/// What the project's own pages share: look, connection state, and coming back after a loss.
package enum PageShell {
  /// A page without any outside resource.
  ///
  /// Its script calls `openSocket({ open, message, closed })`, which keeps a WebSocket to this server, connects again
  /// after a loss, and shows the state in the page's head; `open` gets the socket, `message` a text.
  package static func page(title: String, style: String, body: String, script: String) -> Page {
    Page(
      """
      <!doctype html>
      <html lang="en">
      <head>
      <meta charset="utf-8">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <title>\(title)</title>
      <link rel="icon" href="data:,">
      <style>
      \(self.style)
      \(style)
      </style>
      </head>
      <body>
      <header>
      <h1>\(title)</h1>
      <p id="state" role="status"><span class="dot" aria-hidden="true"></span><span id="state-text">Connecting</span></p>
      </header>
      <main>
      \(body)
      </main>
      <script>
      "use strict";
      \(connection)
      \(script)
      </script>
      </body>
      </html>

      """)
  }

  private static let style = """
    :root {
      color-scheme: light dark;
      --back: #f6f7f9; --card: #ffffff; --text: #16181d; --quiet: #5a6270; --line: #d9dde4;
      --accent: #1f5fd0; --on-accent: #ffffff; --good: #17804a; --bad: #b3261e; --wait: #8a6100;
    }
    @media (prefers-color-scheme: dark) {
      :root {
        --back: #14161a; --card: #1d2026; --text: #eceef2; --quiet: #a3abb8; --line: #343a45;
        --accent: #86b0ff; --on-accent: #10131a; --good: #5fd093; --bad: #ff8a80; --wait: #f0c060;
      }
    }
    * { box-sizing: border-box; }
    body {
      margin: 0 auto; padding: 1.5rem 1rem; max-width: 46rem; background: var(--back); color: var(--text);
      font: 1rem/1.5 system-ui, sans-serif;
    }
    header { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: .5rem; }
    h1 { margin: 0; font-size: 1.5rem; letter-spacing: -.01em; }
    #state { margin: 0; color: var(--quiet); display: flex; align-items: center; gap: .5rem; }
    .dot { width: .7rem; height: .7rem; border-radius: 50%; background: var(--wait); }
    [data-state=open] .dot { background: var(--good); }
    [data-state=closed] .dot { background: var(--bad); }
    main { margin-top: 1rem; padding: 1rem; background: var(--card); border: 1px solid var(--line); border-radius: .75rem; }
    form { display: flex; flex-wrap: wrap; gap: .5rem; align-items: end; }
    label { display: grid; gap: .2rem; font-size: .875rem; color: var(--quiet); }
    input, button { font: inherit; padding: .5rem .75rem; border-radius: .5rem; border: 1px solid var(--line); }
    input { background: var(--back); color: var(--text); font-size: 1rem; }
    button { background: var(--accent); color: var(--on-accent); border-color: transparent; cursor: pointer; }
    button:disabled { opacity: .5; cursor: not-allowed; }
    button.plain { background: none; color: var(--accent); border-color: var(--line); }
    :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
    """

  /// Waits like the library's schedule: a random part of a bound that doubles up to 30 s, anew after 5 s of uptime.
  private static let connection = """
    function openSocket(handlers) {
      const state = document.getElementById("state");
      const text = document.getElementById("state-text");
      let failures = 0;
      function show(name, words) { state.dataset.state = name; text.textContent = words; }
      function connect() {
        show("connecting", "Connecting");
        const socket = new WebSocket(location.protocol.replace("http", "ws") + "//" + location.host + "/");
        socket.binaryType = "arraybuffer";
        let openedAt = 0;
        socket.onopen = () => {
          openedAt = performance.now();
          show("open", "Connected");
          handlers.open(socket);
        };
        socket.onmessage = event => {
          const data = event.data;
          handlers.message(typeof data === "string" ? data : new TextDecoder().decode(data), socket);
        };
        socket.onclose = () => {
          if (openedAt && performance.now() - openedAt > 5000) failures = 0;
          failures += 1;
          const bound = Math.min(30, failures === 1 ? 1 : 2 ** (failures - 1));
          const delay = Math.random() * bound;
          show("closed", "Connection lost, trying again");
          handlers.closed();
          setTimeout(connect, delay * 1000);
        };
      }
      connect();
    }
    """
}
