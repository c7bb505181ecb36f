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

async function takeIn(address = location.href) {
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const text = await answer.text();
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const open = new Set([...document.querySelectorAll("details[open][id]")].map((each) => each.id));
  const main = document.getElementById("main");
  const next = fresh.getElementById("main");
  const isTyping = document.activeElement.matches("main input:not([type=range]), main select");
  if (!next || isTyping) return;
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

// The name of an attempt in a job's gantt opens its stages below; once more closes them.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("#life svg a");
  const place = document.getElementById("expanded");
  if (!link || !place || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const address = link.getAttribute("href");
  if (place.dataset.shows === address) return close(place);
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  if (!answer.ok) return location.assign(address);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const title = document.createElement("p");
  const whole = document.createElement("a");
  whole.href = address;
  whole.textContent = page.querySelector("h1").textContent;
  title.append(whole);
  place.replaceChildren(title, ...page.querySelectorAll("#start, #lanes"));
  place.dataset.shows = address;
  addCopyButtons(place);
  whole.focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
});

function close(place) {
  place.replaceChildren();
  delete place.dataset.shows;
}

// What a form that asks leaves empty does not stand in the address.
document.addEventListener("formdata", (event) => {
  if (event.target.method !== "get") return;
  const given = [...event.formData];
  for (const [name] of given) event.formData.delete(name);
  for (const [name, text] of given) if (text !== "") event.formData.append(name, text);
});

let source = null;

function stop() {
  source?.close();
  source = null;
}

function follow() {
  const address = document.getElementById("main")?.dataset.live;
  if (!address || source) return;
  source = new EventSource(address);
  source.addEventListener("message", () => takeIn());
}

// Sliders say their value while they move, and are answered where they stop.
document.addEventListener("input", (event) => {
  const shown = event.target.closest("form[data-answers] label")?.querySelector("output");
  if (shown) shown.textContent = `${event.target.value} %`;
});

document.addEventListener("change", async (event) => {
  const form = event.target.closest("form[data-answers]");
  if (!form) return;
  const address = `${form.action}?${new URLSearchParams(new FormData(form))}`;
  history.replaceState(null, "", address);
  await takeIn(address);
  document.querySelector(`form[data-answers] [name="${event.target.name}"]`)?.focus();
});

addCopyButtons(document);
follow();
addEventListener("pagehide", stop);
addEventListener("pageshow", follow);
