// Scores of search results: words of the query in a page's title count most; proofs and decisions come after guides.
// docs/search.py computes the same scores and tests them with queries.
const SCORES = { word: 10, later: { "lemmas/": -12, "decisions/": -12, "papers/": -4, "cases/": -4, "gallery/": -3, "cli": -12 } };

var Scorer = {
  score: (result) => {
    const [docname, title, anchor, descr, score] = result;
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const words = query.toLowerCase().split(/[^a-z0-9]+/).filter((word) => word.length > 2);
    const found = words.filter((word) => title.toLowerCase().includes(word.slice(0, 6))).length;
    const later = Object.keys(SCORES.later).filter((prefix) => docname.startsWith(prefix));
    return score + SCORES.word * found + (later.length ? SCORES.later[later[0]] : 0) - (descr === null ? 0 : 5);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
