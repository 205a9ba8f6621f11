// What the theme leaves out for those who read without a mouse or without eyes.

function reachable() {
  // What scrolls inside of its box can be reached by the keyboard.
  for (const box of document.querySelectorAll("article pre, article .table-wrapper, article .math-wrapper")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

const COLUMNS = 6;

function carded() {
  // A table of many columns that does not fit becomes cards: one per row, with the heads of the columns as labels.
  for (const box of document.querySelectorAll("article .table-wrapper")) {
    const table = box.querySelector("table");
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    table.classList.remove("cards");
    if (heads.length < COLUMNS || box.scrollWidth <= box.clientWidth) continue;
    table.classList.add("cards");
    table.setAttribute("role", "table");
    for (const row of table.rows) {
      row.setAttribute("role", "row");
      for (const cell of row.cells) {
        cell.setAttribute("role", cell.tagName === "TH" ? "columnheader" : "cell");
        cell.dataset.label = heads[cell.cellIndex];
      }
    }
  }
}

addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll("[role=heading]:not([aria-level])")) {
    caption.setAttribute("aria-level", "2");
  }
  // The links of thumbnails have no words of their own.
  for (const card of document.querySelectorAll(".sphx-glr-thumbcontainer")) {
    const title = card.querySelector(".sphx-glr-thumbnail-title");
    const link = card.querySelector("a");
    if (title && link) link.setAttribute("aria-label", title.textContent.trim());
  }
  carded();
  reachable();
});
addEventListener("resize", () => {
  carded();
  reachable();
});
