import Foundation
import WebSocketHandling
import WebSocketServing

/// `websocket chat serve`: a chat room for Swift clients and, with its page, for browsers.
struct ChatServer {
  private let port: Int

  init(_ arguments: some Sequence<String>) throws(UsageError) {
    let options = try CommandLineOptions(arguments, valued: ["--port"])
    try options.noOperands()
    port = try options.integer("--port", in: 0...65_535) ?? 0
  }

  func run() {
    let room = Room()
    Terminal.serve { () throws(EngineError.WebSocketError) in
      try WebSocketServer(port: port, pages: [Self.page]) { room.join($0) }
    }
  }

  private static let page = PageShell.page(
    title: "Chat",
    style: """
      #log { list-style: none; margin: 0 0 1rem; padding: 0; height: 60vh; overflow-y: auto; }
      #log li { margin: .25rem 0; padding: .5rem .75rem; border-radius: .75rem; background: var(--back);
        width: fit-content; max-width: 85%; overflow-wrap: anywhere; white-space: pre-wrap; }
      #log li.own { margin-left: auto; background: var(--accent); color: var(--on-accent); }
      #log b { display: block; font-size: .8rem; opacity: .8; }
      #say label:nth-of-type(2) { flex: 1; min-width: 12rem; }
      #say input { width: 100%; }
      """,
    body: """
      <ul id="log" role="log" aria-label="Messages" tabindex="0"></ul>
      <form id="say">
      <label>Name <input id="name" value="Guest" size="10" maxlength="40" autocomplete="nickname" required></label>
      <label>Message <input id="text" maxlength="4000" autocomplete="off" required></label>
      <button id="send" disabled>Send</button>
      </form>
      """,
    script: """
      const log = document.getElementById("log");
      const send = document.getElementById("send");
      let socket = null;

      function add(message) {
        const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
        const item = document.createElement("li");
        const sender = document.createElement("b");
        sender.textContent = message.sender;
        item.append(sender, message.content);
        if (message.sender === document.getElementById("name").value) item.className = "own";
        log.append(item);
        while (log.childElementCount > 500) log.firstElementChild.remove();
        if (atEnd) log.scrollTop = log.scrollHeight;
      }

      document.getElementById("say").onsubmit = event => {
        event.preventDefault();
        const text = document.getElementById("text");
        if (socket === null || !text.value) return;
        socket.send(JSON.stringify({ sender: document.getElementById("name").value, content: text.value }));
        text.value = "";
        text.focus();
      };

      openSocket({
        open(opened) { socket = opened; send.disabled = false; },
        message(text) {
          let message;
          try { message = JSON.parse(text); } catch { return; }
          if (typeof message.sender === "string" && typeof message.content === "string") add(message);
        },
        closed() { socket = null; send.disabled = true; }
      });
      """)
}
