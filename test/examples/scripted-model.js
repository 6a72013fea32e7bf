// A language model that follows a script: one entry a turn, each a text or
// tool calls. It stands where an application names a real model.

/**
 * @typedef {{ text: string } | { calls: { tool: string, input: object }[] }} Turn
 * @param {(Turn | ((seen: { tool: string, output: unknown }[]) => Turn))[]} turns
 *   a function gets the results of the tool calls so far
 */
export function scriptedModel(turns) {
  let turn = 0;
  let calls = 0;

  function next(prompt) {
    const entry = turns[Math.min(turn++, turns.length - 1)];
    return typeof entry === 'function' ? entry(toolResults(prompt)) : entry;
  }

  function content(prompt) {
    const entry = next(prompt);
    if (entry.text !== undefined) return [{ type: 'text', text: entry.text }];
    return entry.calls.map(({ tool, input }) => ({
      type: 'tool-call',
      toolCallId: `call-${++calls}`,
      toolName: tool,
      input: JSON.stringify(input),
    }));
  }

  function finish(parts) {
    const reason = parts.some((part) => part.type === 'tool-call') ? 'tool-calls' : 'stop';
    const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
    return { finishReason: reason, usage };
  }

  return {
    specificationVersion: 'v2',
    provider: 'scripted',
    modelId: 'scripted-model',
    supportedUrls: {},
    async doGenerate({ prompt }) {
      const parts = content(prompt);
      return { content: parts, ...finish(parts), warnings: [] };
    },
    async doStream({ prompt }) {
      const parts = content(prompt);
      const stream = new ReadableStream({
        start(controller) {
          controller.enqueue({ type: 'stream-start', warnings: [] });
          for (const part of parts) {
            if (part.type !== 'text') {
              controller.enqueue(part);
              continue;
            }
            controller.enqueue({ type: 'text-start', id: '1' });
            controller.enqueue({ type: 'text-delta', id: '1', delta: part.text });
            controller.enqueue({ type: 'text-end', id: '1' });
          }
          controller.enqueue({ type: 'finish', ...finish(parts) });
          controller.close();
        },
      });
      return { stream };
    },
  };
}

function toolResults(prompt) {
  return prompt
    .filter((message) => message.role === 'tool')
    .flatMap((message) => message.content)
    .map((part) => ({ tool: part.toolName, output: part.output?.value ?? part.output }));
}
