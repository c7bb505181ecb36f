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

async function takeIn(from = location.href) {
  const next = (await asked(from))?.getElementById("main");
  const main = document.getElementById("main");
  if (!next) return;
  document.title = next.ownerDocument.title;
  become(main, next);
  if (!main.dataset.live) stop();
  const place = document.getElementById("expanded");
  const address = place?.dataset.shows;
  if (address && place.dataset.mark !== markOf(address)) await expand(place, address);
  addCopyButtons(main);
}

async function asked(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" } });
  return answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
}

// Only what differs is changed, so what a reader opened, scrolled to, typed or stands on stays.
function become(old, next) {
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) return old.replaceWith(next);
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  if (old.id === "expanded") return;
  if (old.nodeName === "PRE" && old.firstChild?.isEqualNode(next.firstChild)) return;
  takeAttributes(old, next);
  const named = new Map([...old.children].filter((each) => each.id).map((each) => [each.id, each]));
  let place = old.firstChild;
  for (const child of [...next.childNodes]) {
    const same = child.id ? named.get(child.id) : place?.id ? null : place;
    if (!same) {
      old.insertBefore(child, place);
      continue;
    }
    if (same === place) place = place.nextSibling;
    else old.insertBefore(same, place);
    become(same, child);
  }
  while (place) {
    const after = place.nextSibling;
    place.remove();
    place = after;
  }
}

function takeAttributes(old, next) {
  for (const { name } of [...old.attributes]) {
    const isReaders = name === "open" && old.nodeName === "DETAILS";
    if (!next.hasAttribute(name) && !isReaders) old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

// The name of an attempt in a job's gantt opens its stages below; once more closes them.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("#life svg a");
  const place = document.getElementById("expanded");
  if (!link || !place || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  const address = link.getAttribute("href");
  if (place.dataset.shows === address) return close(place);
  close(place);
  if (!(await expand(place, address))) return location.assign(address);
  place.querySelector("a").focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
});

// What is said of an attempt is another only where its mark in the gantt is.
function markOf(address) {
  return document.querySelector(`#life svg a[href="${CSS.escape(address)}"]`)?.dataset.mark ?? "";
}

// Shows in its place what the page at an address says of an attempt.
async function expand(place, address) {
  const mark = markOf(address);
  const page = await asked(address);
  if (!page) return false;
  const title = document.createElement("p");
  const whole = document.createElement("a");
  whole.href = address;
  whole.textContent = page.querySelector("h1").textContent;
  title.append(whole);
  const next = document.createElement("div");
  next.append(title, ...page.querySelectorAll("#start, #lanes"));
  if (!place.firstChild) place.append(document.createElement("div"));
  become(place.firstChild, next);
  place.dataset.shows = address;
  place.dataset.mark = mark;
  addCopyButtons(place);
  return true;
}

function close(place) {
  place.replaceChildren();
  delete place.dataset.shows;
  delete place.dataset.mark;
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

// Times are shown in UTC; where the pointer rests on one, its title is the reader's own time.
document.addEventListener("mouseover", (event) => {
  const time = event.target.closest("time");
  if (time) time.title = new Date(time.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "long" });
});

// Sliders say their value while they move, and are answered where they stop.
document.addEventListener("input", (event) => {
  const shown = event.target.closest("form[data-answers] label")?.querySelector("output");
  if (shown) shown.textContent = `${event.target.value}%`;
});

document.addEventListener("change", async (event) => {
  const form = event.target.closest("form[data-answers]");
  if (!form) return;
  const address = `${form.action}?${new URLSearchParams(new FormData(form))}`;
  history.replaceState(null, "", address);
  await takeIn(address);
  document.querySelector(`form[data-answers] [name="${event.target.name}"]`)?.focus();
});

// What was left for later is laid out once the browser is idle, so that all is there to be scrolled and copied.
addEventListener("load", () => {
  const settle = () => document.documentElement.classList.add("settled");
  if ("requestIdleCallback" in self) requestIdleCallback(settle);
  else setTimeout(settle);
});
addCopyButtons(document);
follow();
addEventListener("pagehide", stop);
addEventListener("pageshow", follow);
