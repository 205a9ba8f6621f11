// What the theme leaves out for those who read without a mouse or without eyes.

function reachable() {
  // What scrolls inside of its box can be reached by the keyboard.
  for (const box of document.querySelectorAll("article pre, article .table-wrapper, article .math-wrapper")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
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
  reachable();
});
addEventListener("resize", reachable);
