// Runs before anything is painted, so that a remembered theme does not flash.
(() => {
  try {
    const theme = localStorage.getItem("evenbeat.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Without storage the system decides.
  }
})();
