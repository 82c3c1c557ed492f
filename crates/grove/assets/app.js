// The live stream, the keyboard and the dialog. Everything else is HTML from the server that htmx puts in
// its place. What people and agents say is only ever set as text here, never as HTML.
'use strict';

const at = (id) => document.getElementById(id);
const conversation = document.body.dataset.conversation;
const [scroll, chat, worktrees, others, settings] = ['scroll', 'chat', 'worktrees', 'others', 'settings'].map(at);
const [form, message, send, stop] = ['say', 'message', 'send', 'stop'].map(at);
// Only with several repositories.
const [picker, codebase, about] = ['picker', 'codebase', 'about'].map(at);
const [alertLine, statusLine, announce, dialog] = ['alert', 'status', 'announce', 'dialog'].map(at);

// The address names the conversation, so that loading the page again shows the same one.
const address = new URLSearchParams(location.search);
if (!address.has('c')) {
  address.set('c', conversation);
  history.replaceState(null, '', `/?${address}`);
}

// --- one sentence when something goes wrong ------------------------------------------------------

function complain(text) {
  const region = dialog.open ? dialog.querySelector('[role=alert]') : alertLine;
  region.textContent = text;
}

function sentenceOf(body) {
  try {
    const { message, hint, reasons = [] } = JSON.parse(body).error;
    return [message, ...reasons.map((reason) => reason.message), hint].join(' ').trim();
  } catch {
    return 'The server did not answer as expected. Load the page again.';
  }
}

const UNREACHABLE = 'The server cannot be reached. Is grove running?';

document.body.addEventListener('htmx:responseError', ({ detail }) => complain(sentenceOf(detail.xhr.responseText)));
document.body.addEventListener('htmx:sendError', () => complain(UNREACHABLE));

// --- looking again -------------------------------------------------------------------------------

// Many things may happen at once; one look is enough for all of them.
const planned = new Map();
function lookAgain(element, soon = 30) {
  if (planned.has(element)) return;
  planned.set(element, setTimeout(() => {
    planned.delete(element);
    htmx.trigger(element, 'refresh');
  }, soon));
}

function everything() {
  // An answer may have been missed; if the log has it, what grew until now was it.
  answered = live.length;
  [chat, worktrees, others, settings].forEach((element) => lookAgain(element));
}

// --- the conversation ----------------------------------------------------------------------------

// As much of a growing answer as a browser likes to show; the stored answer has the rest.
const LONGEST = 60000;
// What an agent says until its answer is stored, and how much of that belongs to answers that were said.
let live = '';
let answered = 0;
let answers = 0;
let follows = true;
let drawing = false;

const toEnd = () => { if (follows) scroll.scrollTop = scroll.scrollHeight; };
scroll.addEventListener('scroll', () => {
  follows = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
});

addEventListener('resize', toEnd);

function drawLive() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    at('live-text').textContent = live;
    at('live').hidden = live === '';
    at('live').classList.toggle('shell', chat.querySelector('.shell') !== null);
    toEnd();
  });
}

// What is being done, until an answer grows.
function working(text) {
  at('working-text').textContent = text;
  at('working').hidden = false;
}

function grow(text) {
  live += text;
  const over = Math.max(0, live.length - LONGEST);
  live = live.slice(over);
  answered = Math.max(0, answered - over);
  working('Working…');
  drawLive();
}

// The log was put in place: the growing bubble gives way to the stored answer.
function settleLog(first) {
  const log = chat.querySelector('[data-busy]');
  const busy = log.dataset.busy === 'true';
  const more = Number(log.dataset.answers) > answers;
  answers = Number(log.dataset.answers);
  if (!busy || more) {
    live = live.slice(answered);
    answered = 0;
  }
  at('working').hidden = !busy;
  if (!busy) at('working-text').textContent = 'Working…';
  if (picker) {
    const { codebase: chosen, asks } = log.dataset;
    about.textContent = chosen ? `in ${chosen}` : '';
    picker.hidden = chosen !== '' || asks === 'true';
  }
  if (more && !first) {
    const said = [...log.querySelectorAll('.answer .said')].pop();
    announce.textContent = said ? said.textContent.slice(0, 500) : '';
  }
  drawLive();
}

// Shown at once; the stored line takes its place.
function showOwn(text) {
  let log = chat.querySelector('ol');
  if (!log) {
    log = document.createElement('ol');
    log.className = 'log';
    Object.assign(log.dataset, { busy: 'true', answers: '0' });
    chat.replaceChildren(log);
  }
  const line = document.createElement('li');
  line.className = 'line user';
  const who = document.createElement('p');
  who.className = 'who';
  who.textContent = 'You';
  const said = document.createElement('div');
  said.className = 'said';
  const words = document.createElement('p');
  words.textContent = text;
  said.append(words);
  line.append(who, said);
  log.append(line);
  at('working').hidden = false;
  follows = true;
  toEnd();
  return line;
}

async function say(text) {
  alertLine.textContent = '';
  const body = { message: text };
  if (picker && !picker.hidden && codebase.value) body.codebase = codebase.value;
  try {
    const answer = await fetch(`/api/conversations/${encodeURIComponent(conversation)}/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!answer.ok) complain(sentenceOf(await answer.text()));
    return answer.ok;
  } catch {
    complain(UNREACHABLE);
    return false;
  } finally {
    lookAgain(chat);
    lookAgain(others, 200);
  }
}

const weigh = () => { send.disabled = message.value.trim() === ''; };
message.addEventListener('input', weigh);
message.addEventListener('keydown', (event) => {
  // While a person composes a character, Enter chooses it.
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (!send.disabled) form.requestSubmit();
  }
});
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const text = message.value;
  if (text.trim() === '') return;
  message.value = '';
  weigh();
  message.focus();
  const line = showOwn(text);
  if (await say(text)) return;
  line.remove();
  // Text that a person typed is not lost.
  message.value = message.value ? `${text}\n${message.value}` : text;
  weigh();
});
// A button of a question: its text is the answer.
chat.addEventListener('click', (event) => {
  const option = event.target.closest('[data-option]');
  if (!option) return;
  const text = option.dataset.option;
  option.closest('.options').remove();
  showOwn(text);
  say(text);
  message.focus();
});
stop.addEventListener('click', () => {
  say('/stop');
  message.focus();
});

// --- the stream ----------------------------------------------------------------------------------

let stream = null;
let again = null;

function connect() {
  clearTimeout(again);
  stream?.close();
  stream = new EventSource('/api/events');
  const on = (name, act) => stream.addEventListener(name, ({ data }) => act(JSON.parse(data)));
  const ours = (event) => event.platform === 'web' && event.conversation === conversation;
  stream.onopen = () => {
    at('connection').textContent = '';
    // Whatever happened before was not heard.
    everything();
  };
  stream.onerror = () => {
    at('connection').textContent = 'Connection lost. Trying again…';
    // A browser tries again by itself, unless the server said no.
    if (stream.readyState === EventSource.CLOSED) again = setTimeout(connect, 3000);
  };
  on('heard', (event) => {
    if (ours(event)) lookAgain(chat);
    if (event.platform === 'web') lookAgain(others, 200);
  });
  on('delta', (event) => { if (ours(event)) grow(event.text); });
  on('step', (event) => { if (ours(event)) grow(`${live === '' || live.endsWith('\n') ? '' : '\n'}· ${event.text}\n`); });
  on('progress', (event) => { if (ours(event)) working(event.text); });
  on('said', (event) => {
    if (!ours(event)) return;
    answered = live.length;
    lookAgain(chat);
  });
  on('worktrees', () => lookAgain(worktrees, 150));
  on('settings', () => lookAgain(settings));
  on('lagged', everything);
}

// A browser keeps few connections to one server; a hidden page leaves its own to others.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    clearTimeout(again);
    stream?.close();
  } else {
    connect();
  }
});

// Another process may work on the conversation, of which this server's stream tells nothing.
setInterval(() => { if (!at('working').hidden && !document.hidden) lookAgain(chat); }, 5000);

// --- dialogs -------------------------------------------------------------------------------------

let opener = null;

document.body.addEventListener('htmx:afterSwap', ({ detail }) => {
  if (detail.target === chat) settleLog(false);
  if (detail.target === dialog && !dialog.open) {
    dialog.showModal();
  }
  if (detail.target === statusLine) {
    alertLine.textContent = '';
    opener = null;
    if (dialog.open) dialog.close();
    (at('undo') ?? message).focus();
  }
});
// Not asked for by the button itself: the list may be renewed meanwhile, and the button with it.
worktrees.addEventListener('click', (event) => {
  const button = event.target.closest('[data-dialog]');
  if (!button) return;
  opener = button.id;
  alertLine.textContent = '';
  htmx.ajax('GET', button.dataset.dialog, { target: '#dialog', swap: 'innerHTML' });
});
// The list may have been renewed meanwhile, so the button is found by its name.
dialog.addEventListener('close', () => {
  if (opener) at(opener)?.focus();
  dialog.replaceChildren();
});
statusLine.addEventListener('click', (event) => {
  if (!event.target.closest('[data-dismiss]')) return;
  statusLine.replaceChildren();
  message.focus();
});

// --- the rest ------------------------------------------------------------------------------------

// The same words as the server's.
function ago(seconds) {
  const days = Math.floor(seconds / 86400);
  if (seconds < 10) return 'just now';
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return days === 1 ? '1 day ago' : `${days} days ago`;
}
setInterval(() => {
  for (const time of document.querySelectorAll('time[data-ago]')) {
    time.textContent = ago(Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
  }
}, 15000);

const wide = matchMedia('(min-width: 64rem)');
const unfold = () => { at('conversations').open = wide.matches; };
wide.addEventListener('change', unfold);
unfold();

settleLog(true);
weigh();
toEnd();
connect();
message.focus({ preventScroll: true });
