// Uses the page in a real browser, as a person does.
//
//   node page.mjs LINK REPOSITORY [FOLDER]
//
// LINK lets this browser in once. REPOSITORY is one that is not registered. With FOLDER, pictures of the page go there. The driver is found in the
// folder that GROVE_TEST_BROWSER names, where scripts/test puts it. Anything unexpected ends with code 1.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import { join } from 'node:path';

const [link, repository, folder] = process.argv.slice(2);
const require = createRequire(join(process.env.GROVE_TEST_BROWSER, 'package.json'));
const { chromium } = require('playwright-core');

const executablePath = execFileSync('sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).trim();
const browser = await chromium.launch({
  executablePath,
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});

const steps = [];
const step = (name) => steps.push(`${name} (${Math.round(performance.now())} ms)`);
const complaints = [];
// Another server of this machine, such as one that somebody develops: what cookies does it get?
const cookiesElsewhere = [];
const elsewhere = createServer((request, response) => {
  cookiesElsewhere.push(request.headers.cookie ?? '');
  response.end('another server');
});
await new Promise((listening) => elsewhere.listen(0, '127.0.0.1', listening));
try {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, colorScheme: 'light' });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on('console', (line) => { if (['error', 'warning'].includes(line.type())) complaints.push(line.text()); });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(link).origin) complaints.push(`asks elsewhere: ${request.url()}`);
  });
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
    });
  });
  const picture = async (name) => { if (folder) await page.screenshot({ path: join(folder, `${name}.png`) }); };
  const answers = page.locator('#chat .answer .said');
  const cards = page.locator('#worktrees .card');
  // Waits: what has the focus may be decided a moment later.
  const focusIsOn = (name) => page.waitForFunction(
    (wanted) => [document.activeElement.id, document.activeElement.textContent.trim()].includes(wanted), name);

  step('without the link nobody is let in');
  const stranger = await browser.newPage({ viewport: { width: 1200, height: 800 } });
  assert.equal((await stranger.goto(new URL('/', link).href)).status(), 401);
  await stranger.getByText('grove up').waitFor();
  if (folder) await stranger.screenshot({ path: join(folder, 'door.png') });
  await stranger.close();

  step('the link lets in, and the page says what to type first');
  await page.goto(link);
  await page.waitForURL('**/?c=web-*');
  await page.getByText('git log --oneline -3').waitFor();
  await focusIsOn('message');
  assert.equal(await page.locator('#send').isDisabled(), true, 'an empty message cannot be sent');
  await page.getByText('None yet.').waitFor();
  await picture('empty');

  step('another server of this machine gets no cookie');
  const developing = await context.newPage();
  for (const host of ['127.0.0.1', 'localhost', 'app.localhost']) {
    await developing.goto(`http://${host}:${elsewhere.address().port}/`);
    await developing.getByText('another server').waitFor();
  }
  await developing.close();
  assert.deepEqual(cookiesElsewhere.filter((cookies) => cookies !== ''), []);
  assert.ok(cookiesElsewhere.length >= 3);
  await page.bringToFront();

  step('a message is answered from inside a new worktree');
  await page.fill('#message', 'pwd; git branch --show-current');
  await page.click('#send');
  await page.locator('#chat .user', { hasText: 'git branch --show-current' }).waitFor();
  await page.locator('#chat .notice', { hasText: 'Working in isolated branch' }).waitFor();
  const branch = (await page.locator('#chat .notice code').first().textContent()).trim();
  await answers.filter({ hasText: branch }).waitFor();
  assert.match(await answers.first().textContent(), /\/worktrees\//);
  assert.equal(await page.locator('#message').inputValue(), '');

  step('the environment is in the list');
  await cards.filter({ hasText: branch }).waitFor();
  assert.equal(await cards.count(), 1);
  assert.match(await cards.locator('.state').textContent(), /fresh/);

  step('only the keyboard: two lines are sent, and the answer grows before it is stored');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('git log --oneline -3');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('echo "a step" > notes.txt; echo begun; until [ -e go ]; do sleep 0.05; done; echo "<b>ended</b>"');
  await page.keyboard.press('Enter');
  await page.locator('#live-text', { hasText: 'begun' }).waitFor();
  assert.equal(await page.locator('#live-text', { hasText: 'ended' }).count(), 0);
  await page.locator('#stop').waitFor();
  await picture('live');
  await page.keyboard.press('Tab');
  await focusIsOn('diff-' + await cards.getAttribute('data-id'));
  await page.keyboard.press('Shift+Tab');
  await focusIsOn('message');
  await page.keyboard.press('Shift+Tab');
  await focusIsOn('stop');

  step('/stop ends it');
  await page.keyboard.press('Enter');
  await answers.filter({ hasText: 'Stopped.' }).waitFor();
  await page.locator('#working').waitFor({ state: 'hidden' });
  assert.equal(await page.locator('#live').isVisible(), false, 'the stored answer took its place');
  assert.equal(await page.locator('#chat .answer', { hasText: 'begun' }).count(), 1);
  await cards.locator('.state', { hasText: 'dirty' }).waitFor();

  step('what is said is never HTML');
  await page.fill('#message', 'echo "<img src=x onerror=alert(1)>"; printf "%s\\n" "\\`\\`\\`" "<b>code</b>" "\\`\\`\\`"');
  await page.keyboard.press('Enter');
  await page.locator('#chat .answer pre code', { hasText: '<b>code</b>' }).waitFor();
  assert.equal(await page.locator('#chat img, #chat b').count(), 0);

  step('the changes are shown, new files included');
  await cards.getByRole('button', { name: `Changes in ${branch}` }).focus();
  await page.keyboard.press('Enter');
  const changes = page.getByRole('dialog');
  await changes.locator('.diff .added', { hasText: '+a step' }).waitFor();
  await changes.locator('.diff .file', { hasText: '+++ b/notes.txt' }).waitFor();
  await picture('changes');
  await page.keyboard.press('Escape');
  await changes.waitFor({ state: 'hidden' });
  await focusIsOn('diff-' + await cards.getAttribute('data-id'));

  step('the plan is shown first, and Esc leaves everything as it is');
  const remove = cards.getByRole('button', { name: `Remove ${branch}` });
  await remove.focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('files that git does not know').waitFor();
  await dialog.getByText('kept for 30 days').waitFor();
  await focusIsOn('Cancel');
  await picture('plan');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'hidden' });
  await focusIsOn('remove-' + await cards.getAttribute('data-id'));
  assert.equal(await cards.count(), 1);

  step('removed, undone, and removed again');
  const removeAnyway = async () => {
    await remove.click();
    await dialog.getByRole('button', { name: 'Remove anyway' }).click();
    await page.locator('#status', { hasText: `Removed ${branch}` }).waitFor();
    await page.getByText('None yet.').waitFor();
  };
  await removeAnyway();
  await focusIsOn('undo');
  await picture('removed');
  await page.keyboard.press('Enter');
  await page.locator('#status', { hasText: `${branch} is back` }).waitFor();
  await cards.filter({ hasText: branch }).waitFor();
  await cards.locator('.state', { hasText: 'dirty' }).waitFor();
  await page.locator('#status [data-dismiss]').click();

  step('one that hibernates has a true plan too');
  await page.fill('#message', `/worktree hibernate ${branch}`);
  await page.keyboard.press('Enter');
  await cards.locator('.state', { hasText: 'hibernated' }).waitFor();
  await removeAnyway();
  await page.locator('#undo').click();
  await cards.locator('.state', { hasText: 'dirty' }).waitFor();
  await page.locator('#status [data-dismiss]').click();

  step('a second conversation gets an environment of its own, and the first can be found again');
  await page.getByRole('link', { name: 'New conversation' }).first().click();
  await page.getByText('What would you like to do?').waitFor();
  await page.fill('#message', 'git log --oneline -3');
  await page.keyboard.press('Enter');
  await answers.filter({ hasText: 'first' }).waitFor();
  await page.fill('#message', 'ls; git status --short --branch');
  await page.keyboard.press('Enter');
  await answers.filter({ hasText: 'README.md' }).waitFor();
  await page.locator('#worktrees .card + .card').waitFor();
  await picture('page');
  assert.equal(await page.locator('#others a').count(), 2);
  await page.locator('#others a', { hasText: 'pwd; git branch' }).click();
  await answers.filter({ hasText: branch }).first().waitFor();
  await page.locator('#worktrees .card + .card').waitFor();

  step('dark, and a phone');
  await page.emulateMedia({ colorScheme: 'dark' });
  await picture('dark');
  for (const colorScheme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: 360, height: 740 });
    const wide = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
    assert.ok(wide[0] <= wide[1], `a phone scrolls sideways: ${wide}`);
    await picture(`phone-${colorScheme}`);
  }
  await page.getByRole('link', { name: 'Environments' }).click();
  await cards.first().scrollIntoViewIfNeeded();
  await picture('phone-environments');
  await cards.first().getByRole('button', { name: /^Remove/ }).click();
  await dialog.getByRole('button', { name: 'Cancel' }).waitFor();
  await picture('phone-plan');
  const wide = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth]);
  assert.ok(wide[0] <= wide[1], `a phone scrolls sideways: ${wide}`);
  await page.keyboard.press('Escape');

  step('the first environment goes');
  await page.setViewportSize({ width: 1200, height: 800 });
  const first = cards.filter({ hasText: branch });
  await first.getByRole('button', { name: /^Remove/ }).click();
  await dialog.getByRole('button', { name: 'Remove anyway' }).click();
  await first.waitFor({ state: 'detached' });
  assert.equal(await cards.count(), 1);

  step('the Markdown of an agent is rendered, and nothing in it acts');
  const newConversation = async () => {
    await page.getByRole('link', { name: 'New conversation' }).first().click();
    await page.getByText('What would you like to do?').waitFor();
  };
  await newConversation();
  await page.fill('#message', '/agent cat');
  await page.keyboard.press('Enter');
  await answers.first().waitFor();
  await page.fill('#message', [
    '# The login works', '', 'The redirect kept the **old** address. See [RFC 9110](https://example.org/) and `login.rs`:', '',
    '```rust', 'let next = query.get("next").unwrap_or("/");', '```', '', '- one test more', '- nothing else', '',
    '<img src=x onerror="document.title = \'hit\'">', '', '[do not](javascript:document.title="hit")',
  ].join('\n'));
  await page.keyboard.press('Enter');
  const answer = answers.last();
  await answer.locator('h3', { hasText: 'The login works' }).waitFor();
  await answer.locator('strong', { hasText: 'old' }).waitFor();
  await answer.locator('pre code', { hasText: 'let next' }).waitFor();
  assert.equal(await answer.locator('li').count(), 2);
  assert.deepEqual(await answer.locator('a').evaluateAll((links) => links.map((link) => [link.href, link.rel])),
    [['https://example.org/', 'noopener']]);
  await answer.getByText('do not').click();
  assert.equal(await page.locator('#chat img').count(), 0);
  await answer.getByText('<img src=x onerror=').waitFor();
  assert.notEqual(await page.title(), 'hit');
  await page.locator('#others a', { hasText: 'The login works' }).waitFor();
  await cards.filter({ hasText: 'The login works' }).waitFor();
  await picture('answer');

  step('a second repository: a message that names none is kept, and a button runs it');
  const showRepository = 'git rev-parse --path-format=absolute --git-common-dir';
  await newConversation();
  assert.equal(await page.locator('#codebase').count(), 0, 'one repository needs no choice');
  await page.fill('#message', `/register ${repository}`);
  await page.keyboard.press('Enter');
  await answers.filter({ hasText: 'Registered' }).waitFor();
  await newConversation();
  await page.getByRole('combobox', { name: 'Repository' }).selectOption('Choose…');
  await page.fill('#message', showRepository);
  await page.keyboard.press('Enter');
  const options = page.locator('#chat [data-option]');
  await options.nth(1).waitFor();
  assert.equal(await page.locator('#codebase').isVisible(), false);
  await picture('question');
  const second = await options.last().textContent();
  await options.last().focus();
  await page.keyboard.press('Enter');
  await answers.filter({ hasText: `${repository}/.git` }).waitFor();
  await focusIsOn('message');
  assert.equal(await options.count(), 0);
  await page.locator('#about', { hasText: `in ${second}` }).waitFor();

  step('a new conversation there is about the same repository, and another can be chosen');
  await page.reload();
  await newConversation();
  const select = page.getByRole('combobox', { name: 'Repository' });
  assert.equal(await select.inputValue(), second);
  await page.fill('#message', showRepository);
  await page.keyboard.press('Tab');
  await focusIsOn('codebase');
  const other = await select.locator('option').nth(1).textContent();
  await select.selectOption(other);
  await picture('picker');
  await page.locator('#message').focus();
  await page.keyboard.press('Enter');
  await answers.filter({ hasText: '/.git' }).waitFor();
  assert.equal(await answers.filter({ hasText: repository }).count(), 0);
  await page.locator('#about', { hasText: `in ${other}` }).waitFor();

  assert.deepEqual(complaints, [], 'the browser has nothing to complain about');

  step('signed out, the page is closed');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('grove up').waitFor();
  assert.equal((await page.goto(new URL('/', link).href)).status(), 401);
  assert.deepEqual(await context.cookies(), []);
  console.log(JSON.stringify({ branch }));
} catch (error) {
  console.error(steps.join('\n'));
  console.error(complaints.join('\n'));
  console.error(error);
  process.exitCode = 1;
} finally {
  await browser.close();
  elsewhere.close();
}
