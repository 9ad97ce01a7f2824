"use strict";

// Rows are highlighted one by one as they come into sight; longer ones stay plain.
const LONGEST = 2000;

Prism.languages.wir = {
  string: /"(?:\\.|[^"\\])*"/,
  provenance: { pattern: /\b(?:from|by)\((?:[^()]|\([^()]*\))*\)/, alias: "comment" },
  variable: /%[A-Za-z_]\w*/,
  function: /@[A-Za-z_][\w.]*/,
  type: { pattern: /\b(?:f|i|u|bf|c|b)\d+\w*(?=\[|\b)/, alias: "class-name" },
  keyword: /^\s*(?:program|kernel_definition|multi_kernel|origins|place|fused|constant|symbol|return)\b|\b(?:allocate|allocate_pool|free|reuse|reinterpret|kernel_call|extern_kernel|multi_output|record_event|wait_event|symbol_definition|assert_\w+|comment|conditional|while_loop|subgraph_call|graph_region|place|read|write|read_write|in|at|as|writes|aliases|stride)\b/,
  number: /\b\d[\w.]*/,
};

const LANGUAGES = { py: "python", wir: "wir", cpp: "cpp", cc: "cpp", c: "cpp", h: "cpp", hpp: "cpp", cu: "cpp", cl: "cpp" };

function languageOf(file) {
  return LANGUAGES[file.slice(file.lastIndexOf(".") + 1)];
}

// Append text to an element, as spans for what the language distinguishes.
function addCode(element, text, language) {
  const grammar = language && text.length <= LONGEST ? Prism.languages[language] : null;
  if (!grammar) element.append(text);
  else addTokens(element, Prism.tokenize(text, grammar));
}

function addTokens(element, tokens) {
  for (const token of Array.isArray(tokens) ? tokens : [tokens]) {
    if (typeof token === "string") element.append(token);
    else addTokens(addSpan(element, "", `token ${token.type} ${token.alias ?? ""}`), token.content);
  }
}
