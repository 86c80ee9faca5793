// The console's one script: keys, questions before actions, and parts of pages that stay fresh. Every page works without it.
"use strict";

document.documentElement.classList.add("js");

for (const select of document.querySelectorAll("select[data-submit]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}

// Questions before actions.
const sure = document.getElementById("sure");
let asking = null;

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.confirm || form === asking) return;
  event.preventDefault();
  sure.querySelector("[data-question]").textContent = form.dataset.confirm;
  sure.querySelector("[data-yes]").textContent = form.querySelector("button").textContent;
  sure.returnValue = "no";
  sure.addEventListener("close", () => {
    if (sure.returnValue !== "yes") return;
    asking = form;
    form.requestSubmit();
  }, { once: true });
  sure.showModal();
});

// One form is open at a time; Escape and a click beside it close it.
document.addEventListener("toggle", (event) => {
  const opened = event.target;
  if (!opened.matches?.("details.action") || !opened.open) return;
  for (const other of document.querySelectorAll("details.action[open]")) if (other !== opened) other.open = false;
  opened.querySelector("input[name=reason]")?.focus();
}, true);

document.addEventListener("click", (event) => {
  if (event.target.closest("details.action, dialog")) return;
  for (const each of document.querySelectorAll("details.action[open]")) each.open = false;
});

// Keys.
let row = -1;
let leads = false;

function move(step) {
  const rows = [...document.querySelectorAll("[data-row]")];
  if (!rows.length) return;
  rows.forEach((each) => each.classList.remove("current"));
  row = Math.min(Math.max(row + step, 0), rows.length - 1);
  rows[row].classList.add("current");
  rows[row].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape") {
    for (const each of document.querySelectorAll("details.action[open]")) {
      each.open = false;
      each.querySelector("summary").focus();
    }
    if (typing) event.target.blur();
    return;
  }
  if (typing || document.querySelector("dialog[open]")) return;
  if (leads) {
    leads = false;
    const place = document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`);
    if (place) place.click();
    return;
  }
  if (event.key === "g") {
    leads = true;
    setTimeout(() => { leads = false; }, 1500);
  } else if (event.key === "/") {
    const field = document.querySelector("[data-search]");
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  } else if (event.key === "j" || event.key === "k") {
    move(event.key === "j" ? 1 : -1);
  } else if (event.key === "Enter" && event.target === document.body) {
    document.querySelector("[data-row].current a")?.click();
  } else if (event.key === "?") {
    document.getElementById("keys").showModal();
  }
});

// Parts that stay fresh: the page is asked for again, and the part of the same id takes its place.
function refresh(part) {
  const seconds = Number(part.dataset.refresh);
  if (!seconds) return;
  setTimeout(async () => {
    const busy = document.hidden || part.querySelector("[open]") || part.contains(document.activeElement);
    let next = part;
    if (!busy) {
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
        if (answer.redirected) return location.reload();
        const found = answer.ok && new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
        if (found && !part.querySelector("[open]") && !part.contains(document.activeElement)) {
          next = document.adoptNode(found);
          part.replaceWith(next);
          if (row >= 0) move(0);
        }
      } catch {
        // The server is away for a moment: the next look may find it.
      }
    }
    if (next.dataset.refresh) refresh(next);
  }, seconds * 1000);
}

document.querySelectorAll("[data-refresh]").forEach(refresh);
