// The search by hand that ours is compared with.

/** What Mastra's host-side search finds in [[path, bytes]]. */
export function plainSearch(files, { pattern, caseSensitive = true, maxCountPerFile, maxTotalMatches = 1000, contextLines = 0 }) {
  const regex = new RegExp(pattern, caseSensitive ? 'g' : 'gi');
  const results = [];
  let total = 0;
  for (const [path, content] of files) {
    const lines = content.toString('utf8').split('\n');
    const matches = [];
    for (let i = 0; i < lines.length; i++) {
      regex.lastIndex = 0;
      const match = regex.exec(lines[i]);
      if (!match) continue;
      const found = { line: i + 1, column: match.index, text: lines[i] };
      if (contextLines > 0) {
        found.before = lines.slice(Math.max(0, i - contextLines), i);
        found.after = lines.slice(i + 1, i + 1 + contextLines);
      }
      matches.push(found);
      total++;
      if (maxCountPerFile !== undefined && matches.length >= maxCountPerFile) break;
      if (total >= maxTotalMatches) break;
    }
    if (matches.length > 0) results.push({ path, matches });
    if (total >= maxTotalMatches) break;
  }
  return results;
}
