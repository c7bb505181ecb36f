// Pages are complete without this: it copies commands and takes in what changes.

function addCopyButtons(root) {
  if (!navigator.clipboard) return;
  for (const block of root.querySelectorAll("pre:not([data-copied])")) {
    block.dataset.copied = "";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      button.textContent = "Copied";
    });
    block.append(button);
  }
}

async function takeIn() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const text = await answer.text();
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const open = new Set([...document.querySelectorAll("details[open][id]")].map((each) => each.id));
  const main = document.getElementById("main");
  const next = fresh.getElementById("main");
  if (!next || main.contains(document.activeElement) && document.activeElement.matches("input, select")) return;
  for (const each of next.querySelectorAll("details[id]")) each.open = open.has(each.id);
  document.title = fresh.title;
  main.replaceChildren(...next.childNodes);
  if (next.dataset.live) main.dataset.live = next.dataset.live;
  else {
    delete main.dataset.live;
    stop();
  }
  addCopyButtons(main);
}

let source = null;

function stop() {
  source?.close();
  source = null;
}

function follow() {
  const address = document.getElementById("main")?.dataset.live;
  if (!address || source) return;
  source = new EventSource(address);
  source.addEventListener("message", takeIn);
}

addCopyButtons(document);
follow();
addEventListener("pagehide", stop);
addEventListener("pageshow", follow);
