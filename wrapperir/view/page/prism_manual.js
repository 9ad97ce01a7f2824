"use strict";

window.Prism = { manual: true, disableWorkerMessageHandler: true };
