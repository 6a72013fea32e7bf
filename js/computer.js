// The desktop of a sandbox whose template has one: its screen, mouse and keyboard
// through X programs inside (xdotool, scrot), one command for each call.
import { invalid, SandboxError } from './errors.js';
import { checkString, show } from './options.js';

// $1: what to do; the desktop is started where it does not run. Nothing of it may
// hold the command's streams.
const script = `
export DISPLAY="\${DISPLAY:-:0}"
if ! xdpyinfo >/dev/null 2>&1; then
  command -v Xvfb >/dev/null || { echo "no X server" >&2; exit 127; }
  setsid Xvfb "$DISPLAY" -ac -screen 0 1024x768x24 -nolisten tcp >/dev/null 2>&1 </dev/null &
  i=0
  until xdpyinfo >/dev/null 2>&1; do
    i=$((i + 1)); [ $i -le 100 ] || { echo "the X server does not answer" >&2; exit 70; }
    sleep 0.1
  done
  if command -v startxfce4 >/dev/null; then setsid startxfce4 >/dev/null 2>&1 </dev/null & fi
fi
if [ "$1" = screenshot ]; then
  f=$(mktemp -d) || exit 70
  if command -v scrot >/dev/null; then scrot --pointer "$f/screen.png"; else import -window root "png:$f/screen.png"; fi
  r=$?
  [ $r -ne 0 ] || base64 -w 0 "$f/screen.png"
  rm -rf "$f"
  exit $r
fi
exec xdotool "$@"
`;

const keys = {
  enter: 'Return', return: 'Return', esc: 'Escape', escape: 'Escape', tab: 'Tab', space: 'space', backspace: 'BackSpace',
  delete: 'Delete', del: 'Delete', insert: 'Insert', home: 'Home', end: 'End', pageup: 'Prior', pagedown: 'Next',
  up: 'Up', down: 'Down', left: 'Left', right: 'Right', arrowup: 'Up', arrowdown: 'Down', arrowleft: 'Left', arrowright: 'Right',
  ctrl: 'ctrl', control: 'ctrl', alt: 'alt', option: 'alt', shift: 'shift', meta: 'super', cmd: 'super', command: 'super', super: 'super', win: 'super',
  capslock: 'Caps_Lock', printscreen: 'Print',
}; // prettier-ignore

function keyOf(value) {
  if (typeof value !== 'string' || value === '') throw invalid(`key must be a key's name, such as "Enter" or "a", not ${show(value)}`);
  const known = keys[value.toLowerCase()];
  if (known) return known;
  if ([...value].length === 1) {
    const code = value.codePointAt(0);
    return /[A-Za-z0-9]/.test(value) ? value : `U${code.toString(16).padStart(4, '0').toUpperCase()}`;
  }
  if (/^[Ff]\d{1,2}$/.test(value)) return value.toUpperCase();
  if (/^[A-Za-z][A-Za-z0-9_]*$/.test(value)) return value;
  throw invalid(`key must be a key's name, such as "Enter" or "a", not ${show(value)}`);
}

function pixel(value, name) {
  if (Number.isInteger(value) && value >= 0 && value <= 65535) return String(value);
  throw invalid(`${name} must be a number of pixels from 0 to 65535, not ${show(value)}`);
}

const point = (x, y, name = '') => [pixel(x, `${name}x`), pixel(y, `${name}y`)];

export class Computer {
  #run;

  /** `run`: Sandbox.run of its sandbox. */
  constructor(run) {
    this.#run = run;
  }

  /** {data, mediaType: 'image/png'} */
  async screenshot() {
    const data = Buffer.from(await this.#do('screenshot'), 'base64');
    if (data.subarray(0, 8).toString('latin1') !== '\x89PNG\r\n\x1a\n') throw this.#odd('a screenshot that is no PNG');
    return { data: new Uint8Array(data), mediaType: 'image/png' };
  }

  async leftClick(x, y) {
    await this.#do('mousemove', '--sync', ...point(x, y), 'click', '1');
  }

  async rightClick(x, y) {
    await this.#do('mousemove', '--sync', ...point(x, y), 'click', '3');
  }

  async doubleClick(x, y) {
    await this.#do('mousemove', '--sync', ...point(x, y), 'click', '--repeat', '2', '--delay', '100', '1');
  }

  async moveMouse(x, y) {
    await this.#do('mousemove', '--sync', ...point(x, y));
  }

  /** from, to: {x, y} */
  async drag(from, to) {
    const start = point(from?.x, from?.y, 'from.');
    const end = point(to?.x, to?.y, 'to.');
    await this.#do('mousemove', '--sync', ...start, 'mousedown', '1', 'mousemove', '--sync', ...end, 'mouseup', '1');
  }

  async scroll(direction, amount) {
    if (direction !== 'up' && direction !== 'down') throw invalid(`direction must be "up" or "down", not ${show(direction)}`);
    if (!Number.isInteger(amount) || amount < 1 || amount > 1000) {
      throw invalid(`amount must be a number of steps from 1 to 1000, not ${show(amount)}`);
    }
    await this.#do('click', '--repeat', String(amount), direction === 'up' ? '4' : '5');
  }

  async type(text) {
    if (checkString(text, 'text') === undefined) throw invalid('text must be a string');
    if (text.length > 20_000) throw invalid(`text must have at most 20000 characters; it has ${text.length}`);
    if (text !== '') await this.#do('type', '--delay', '12', '--', text);
  }

  /** One key, or those of a chord: 'Enter', ['ctrl', 's']. */
  async press(key) {
    const chord = Array.isArray(key) ? key : [key];
    if (chord.length === 0) throw invalid('key must not be an empty array');
    await this.#do('key', '--', chord.map(keyOf).join('+'));
  }

  /** {width, height} in pixels */
  async getScreenSize() {
    const [, width, height] = /^(\d+) (\d+)\s*$/.exec(await this.#do('getdisplaygeometry')) ?? [];
    if (height === undefined) throw this.#odd('no screen size');
    return { width: Number(width), height: Number(height) };
  }

  /** {x, y} in pixels */
  async getCursorPosition() {
    const [, x, y] = /^x:(\d+) y:(\d+)/.exec(await this.#do('getmouselocation')) ?? [];
    if (y === undefined) throw this.#odd('no position');
    return { x: Number(x), y: Number(y) };
  }

  #odd(what) {
    return new SandboxError('provider_error', `The desktop programs of the sandbox gave ${what}.`, { operation: 'computer' });
  }

  async #do(...args) {
    const { exitCode, stdout, stderr } = await this.#run(['/bin/sh', '-c', script, 'computer', ...args], {
      timeout: 60_000,
      maxRetainedBytes: 64 * 1024 * 1024,
    });
    if (exitCode === 0) return stdout;
    const last = stderr.trim().slice(-300);
    if (exitCode === 127) {
      throw new SandboxError(
        'unsupported',
        `The template has no desktop (${last || 'xdotool is missing'}): use the template "desktop", or one with Xvfb, xdotool, x11-utils and scrot.`,
        { operation: 'computer' },
      );
    }
    throw new SandboxError('provider_error', `computer: ${args[0]} failed (exit code ${exitCode}): ${last}`, { operation: 'computer' });
  }
}
