// Search without a server. A page opened from disk may not start a worker, so that a hidden frame does its work;
// what the two say to each other are plain events. The name is the one that the theme's offline plugin looks for.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      // Some browsers load an empty frame at once, others later and anew; what is put in before that is lost.
      this.ready = new Promise((done) => {
        this.frame.addEventListener("load", () => this.begin(script, done), { once: true });
      });
      document.body.append(this.frame);
    }

    begin(script, done) {
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const element = inside.document.createElement("script");
      element.addEventListener("load", done);
      element.src = script;
      inside.document.head.append(element);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
