// Perfetto's trace processor, as its web page runs it, behind the HTTP interface of `trace_processor_shell`,
// so that Perfetto's Python library talks to it without a program that it would download.
//
//     node processor.js FOLDER    # with engine_bundle.js and trace_processor_memory64.wasm; prints its port
//
// The page's worker takes a MessagePort, and on it frames of `TraceProcessorRpcStream`
// (protos/perfetto/trace_processor/trace_processor.proto).
"use strict";
const fs = require("fs"), http = require("http"), path = require("path"), vm = require("vm");
const folder = process.argv[2];

const APPEND = 1, FINALIZE = 2, QUERY = 3, STATUS = 10;
// Fields of TraceProcessorRpc.
const REQUEST = 2, RESPONSE = 3, FATAL = 5, APPEND_DATA = 101, QUERY_ARGS = 103, APPEND_RESULT = 201;
const QUERY_RESULT = 203, STATUS_RESULT = 210;

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function read(buffer, at) {
  let value = 0, scale = 1;
  for (;; at++, scale *= 128) {
    value += (buffer[at] & 127) * scale;
    if (buffer[at] < 128) return [value, at + 1];
  }
}
// The fields of a message: numbers, or their bytes.
function fields(buffer) {
  const found = {};
  for (let at = 0; at < buffer.length;) {
    let key, value;
    [key, at] = read(buffer, at);
    [value, at] = read(buffer, at);
    if (key % 8 === 2) [value, at] = [buffer.subarray(at, at + value), at + value];
    found[Math.floor(key / 8)] = value;
  }
  return found;
}

// How the worker loads its module.
class File {
  open(method, name) { this.name = path.basename(name); }
  send() { this.response = new Uint8Array(fs.readFileSync(path.join(folder, this.name))); this.status = 200; }
}

// The worker of the page, in its own world.
const worker = {location: {href: ""}};
const scope = {
  self: worker, WorkerGlobalScope: worker, location: worker.location, importScripts() {}, XMLHttpRequest: File,
  console: {...console, log: console.error}, crypto: globalThis.crypto, navigator: {},
  performance, setTimeout, clearTimeout, TextDecoder, TextEncoder, URL,
};
scope.globalThis = scope;
const world = vm.createContext(scope);
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), world);

// It tells arrays by the class of its own world.
const inside = vm.runInContext("bytes => new Uint8Array(bytes)", world);
let seq = 0, waiting = [];
const replies = {postMessage: message => take(Buffer.from(message)), set onmessage(handler) { this.handler = handler; }};
worker.onmessage({data: replies});

// Each reply is a whole number of frames.
function take(stream) {
  for (let at = 0; at < stream.length;) {
    let length;
    [, at] = read(stream, at);
    [length, at] = read(stream, at);
    waiting.push(fields(stream.subarray(at, at + length)));
    at += length;
  }
}

function ask(request, field, body) {
  const message = [number(1, seq++), number(REQUEST, request)];
  if (field) message.push(bytes(field, body));
  waiting = [];
  replies.handler({data: inside(bytes(1, Buffer.concat(message)))});
  const fatal = waiting.find(reply => reply[FATAL]);
  if (fatal) throw new Error(fatal[FATAL].toString());
  return waiting;
}
// Parts of one result: messages are merged by putting their bytes one after another.
const result = (replies, field) => Buffer.concat(replies.map(reply => reply[field] ?? Buffer.alloc(0)));

const answers = {
  "/parse": body => result(ask(APPEND, APPEND_DATA, body), APPEND_RESULT),
  "/notify_eof": () => (ask(FINALIZE), Buffer.alloc(0)),
  "/query": body => result(ask(QUERY, QUERY_ARGS, body), QUERY_RESULT),
  "/status": () => result(ask(STATUS), STATUS_RESULT),
};

const server = http.createServer((request, response) => {
  const parts = [];
  request.on("data", part => parts.push(part));
  request.on("end", () => {
    try {
      response.end(answers[request.url](Buffer.concat(parts)));
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
