// Ask before something is lost.

const dialog = document.getElementById("confirm");

export const confirmed = ({ title, text, button, danger }) => {
  dialog.querySelector("h2").textContent = title;
  dialog.querySelector("#confirm-text").textContent = text;
  const yes = dialog.querySelector("[value=yes]");
  yes.textContent = button;
  yes.classList.toggle("danger", danger);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
};
