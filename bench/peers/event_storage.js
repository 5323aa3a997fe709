// Measures the npm package event-storage where it runs: in this process, with its own clients.
// node event_storage.js MODULE DIRECTORY ORDER: fills a store, says "ready", waits for a line, works, answers in JSON.
'use strict';

const [modulePath, storageDirectory, orderText] = process.argv.slice(2);
const EventStore = require(modulePath);
const order = JSON.parse(orderText);

const STREAMS = 64;
const name = (index) => `course-${index % STREAMS}`;
const event = { course: '7', student: '7', note: 'x'.repeat(order.dataBytes - 40) };
const now = () => performance.now() / 1000; // seconds

function open(syncOnFlush) {
    return new Promise((resolve) => {
        const store = new EventStore('bench', { storageDirectory, storageConfig: { syncOnFlush } });
        store.on('ready', () => resolve(store));
    });
}

function commit(store, stream, events) {
    const expected = Math.max(0, store.getStreamVersion(stream));
    return new Promise((resolve) => store.commit(stream, events, expected, resolve));
}

async function fill() {
    const store = await open(false);
    for (let done = 0; done < order.events; done += 100) {
        await commit(store, name(done / 100), Array(Math.min(100, order.events - done)).fill(event));
    }
    store.close();
}

function scan(store) {
    let count = 0;
    for (const each of store.getAllEvents()) {
        count += each ? 1 : 0;
    }
    return count;
}

// A step of one client; each has a stream of its own, so that nobody is refused and few files are flushed.
function stepOf(store, client) {
    return {
        append: () => commit(store, name(client), [event]).then(() => 1),
        bulk: () => commit(store, name(client), Array(order.batch).fill(event)).then(() => order.batch),
        scan: async () => scan(store),
    }[order.action];
}

function isOver(sample, started) {
    return order.times ? sample.taken === order.times : started >= sample.begin + order.seconds && sample.units > 0;
}

async function repeat(step, sample) {
    for (let started = now(); !isOver(sample, started);) {
        const units = await step();
        const ended = now();
        sample.taken += 1;
        if (started >= sample.begin) {
            sample.latencies.push(ended - started);
            sample.units += units;
            sample.end = ended;
        }
        started = ended;
    }
}

async function main() {
    await fill();
    const store = await open(order.sync);
    for (let index = 0; index < STREAMS; index++) { // the first commit opens a stream's files
        await commit(store, name(index), [event]);
    }
    console.log('ready');
    await new Promise((resolve) => process.stdin.once('data', resolve));
    const sample = { begin: now() + order.warmUp, end: 0, units: 0, taken: 0, latencies: [] };
    const clients = Array.from({ length: order.clients }, (_, client) => repeat(stepOf(store, client), sample));
    await Promise.all(clients);
    const answer = JSON.stringify({ ...sample, resident: process.memoryUsage().rss });
    store.close();
    process.stdout.write(`${answer}\n`, () => process.exit(0)); // a pipe takes it in parts
}

main();
