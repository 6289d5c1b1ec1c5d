// Package model is a stub of the APIs of language models, on a loopback port. It has Anthropic's Messages, OpenAI's
// chat completions and Responses, and Google's Gemini, with tools, and with and without streams. It validates and
// records requests.
//
// The prompts contain the answers. Each line of the latest prompt that starts with "model: " is one answer, in order.
//
//	model: say TEXT            a text that ends the turn; if TEXT starts with ", it is a JSON string and may have several lines
//	model: tool NAME JSON      a tool call; ${a.b} in the JSON is replaced by the text at a.b in the latest result that has one there
//	model: tools JSON          several calls at once: [{"name": ..., "input": {...}}, ...]
//	model: hang NAME           no answer until the test opens the gate with the name; then "Went on"
//	model: forever TEXT        TEXT, followed by more text until the client goes away or the gate "forever" is open
//	model: cut TEXT            TEXT, then the connection breaks
//	model: refuse STATUS TEXT  an API error; "[CODE] " before TEXT is the code of an error of OpenAI's APIs
//	model: think JSON VERB     a thought, which is the JSON string, and then the answer of VERB
//	model: later STATUS VERB   an API error, and the answer of VERB when the client repeats the request
//
// The answer to a prompt without such lines is "You said: " and the prompt. Each answer depends only on the
// conversation in the request, except for "later", so there can be any number of conversations at the same time.
package model
