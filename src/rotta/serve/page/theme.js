// Before the page is drawn, so that it does not flash in the other colours.
"use strict";
const chosen = localStorage.getItem("rotta-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
