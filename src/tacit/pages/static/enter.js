// Enter with the token behind '#', which browsers send to nobody; without one, the form is there.
const enter = () => {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  document.querySelector("#token").value = token;
  document.querySelector("form").requestSubmit();
};
window.addEventListener("hashchange", enter); // the address was pasted into this page
enter();
