// What can be said of a regular expression without running it. Every answer
// is on the safe side: an unusual pattern gets none.

class Unusual extends Error {}

const QUANTIFIER = /\{(\d+)(,(\d*))?\}/y;
const MANY = 8;

class Parser {
  constructor(source, caseSensitive) {
    this.source = source;
    this.caseSensitive = caseSensitive;
    this.at = 0;
    this.facts = { loops: 0, choices: 1, width: 0, nested: false, backReferences: false, crossesLines: false, looksAround: false };
  }

  peek(text) {
    return this.source.startsWith(text, this.at);
  }

  // Texts of which each must occur. An alternation has none.
  alternatives() {
    let runs = this.sequence();
    while (this.peek('|')) {
      this.at++;
      this.facts.choices *= 2;
      this.sequence();
      runs = [];
    }
    return runs;
  }

  sequence() {
    const runs = [];
    let run = '';
    const end = () => {
      if (run) runs.push(run);
      run = '';
    };
    while (this.at < this.source.length && !this.peek('|') && !this.peek(')')) {
      const { loops, choices, width } = this.facts;
      const atom = this.atom();
      const { min, max } = this.quantifier();
      // What varies inside varies again with every repetition.
      if (max > 1 && (this.facts.loops > loops || this.facts.choices > choices)) this.facts.nested = true;
      if (max - min > MANY) this.facts.loops++;
      else {
        this.facts.choices *= max - min + 1;
        this.facts.width += (this.facts.width - width) * (max - 1);
      }
      if (atom.text !== undefined && min > 0) run += atom.text;
      if (atom.text === undefined || max !== 1 || min !== 1) end();
      if (atom.runs && min > 0) runs.push(...atom.runs);
    }
    end();
    return runs;
  }

  atom() {
    const char = this.source[this.at++];
    this.facts.width++;
    if (char === '(') return this.group();
    if (char === '[') return this.set();
    if (char === '\\') return this.escape();
    if (char === '.' || char === '^' || char === '$') return {};
    return this.literal(char);
  }

  // Characters that the bytes of a file show surely. A broken sequence in a
  // file reads as U+FFFD; half a pair has no bytes of its own.
  literal(char) {
    const code = char.charCodeAt(0);
    if (char === '\n') this.facts.crossesLines = true;
    const odd = code === 0xfffd || (code >= 0xd800 && code <= 0xdfff) || (!this.caseSensitive && code > 0x7f);
    return odd ? {} : { text: char };
  }

  group() {
    let around = false;
    if (this.peek('?')) {
      const kind = /\?(?:[:=!]|<[=!]|<[A-Za-z_$][\w$]*>)/y;
      kind.lastIndex = this.at;
      const found = kind.exec(this.source)?.[0];
      if (!found) throw new Unusual();
      around = /[=!]$/.test(found);
      // A positive one gives its first way only, which may be another there.
      if (around) this.facts.looksAround = true;
      this.at += found.length;
    }
    const runs = this.alternatives();
    if (!this.peek(')')) throw new Unusual();
    this.at++;
    return { runs: around ? [] : runs };
  }

  set() {
    if (this.peek('^')) this.facts.crossesLines = true;
    for (let first = true; !this.peek(']') || first; first = false) {
      if (this.at >= this.source.length) throw new Unusual();
      // An empty set; "[^]" is every character.
      if (first && this.peek(']')) break;
      const char = this.source[this.at++];
      if (char === '\\') this.escape();
      else if (char <= '\n') this.facts.crossesLines = true;
      // A range from there, such as [\t-\r].
      if (char === '\\' && this.peek('-')) this.facts.crossesLines = true;
    }
    this.at++;
    return {};
  }

  escape() {
    const char = this.source[this.at++];
    if (char === undefined || /[0xuckpP]/.test(char)) throw new Unusual();
    if (/[1-9]/.test(char)) {
      while (/\d/.test(this.source[this.at] ?? '')) this.at++;
      this.facts.backReferences = true;
      return {};
    }
    if (/[sWDn]/.test(char)) this.facts.crossesLines = true;
    if (/[dwSsWDnbBrvf]/.test(char)) return {};
    if (char === 't') return { text: '\t' };
    if (/[A-Za-z]/.test(char)) throw new Unusual();
    return this.literal(char);
  }

  quantifier() {
    const char = this.source[this.at];
    let range = { '*': [0, Infinity], '+': [1, Infinity], '?': [0, 1] }[char];
    let length = 1;
    if (char === '{') {
      QUANTIFIER.lastIndex = this.at;
      const found = QUANTIFIER.exec(this.source);
      if (found) {
        const min = Number(found[1]);
        range = [min, found[2] === undefined ? min : found[3] ? Number(found[3]) : Infinity];
        length = found[0].length;
      }
    }
    if (!range) return { min: 1, max: 1 };
    this.at += length;
    if (this.peek('?')) this.at++;
    return { min: range[0], max: range[1] };
  }
}

const longest = runs => runs.reduce((best, run) => (run.length > best.length ? run : best), '');

// More of a text in any case would cost the search for it more than it saves.
const FOLDED = 32;
// Characters of a pattern that a place in a text costs nothing extra for.
const WIDTH = 32;

/** What is known of a valid pattern: {literal: a text without which no line
 * matches ('' if unknown; in any ASCII case unless caseSensitive), wholeText: a test on a whole text with the
 * flag m finds every text with a line that matches, at the cost of the lines, loops: number of
 * unbounded repetitions, Infinity if they may multiply without end, choices: ways through the rest}. */
export function patternFacts(source, caseSensitive) {
  const parser = new Parser(source, caseSensitive);
  try {
    const runs = parser.alternatives();
    if (parser.at < source.length) throw new Unusual();
    const { loops, choices, width, nested, backReferences, crossesLines, looksAround } = parser.facts;
    return {
      literal: caseSensitive ? longest(runs) : longest(runs).slice(0, FOLDED),
      wholeText: !crossesLines && !looksAround,
      loops: nested || backReferences ? Infinity : loops,
      choices: choices * Math.max(1, Math.ceil(width / WIDTH)),
    };
  } catch (error) {
    if (error instanceof Unusual) return { literal: '', wholeText: false, loops: Infinity, choices: 1 };
    throw error;
  }
}
