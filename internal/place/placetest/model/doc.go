// Package model is a stub of the APIs of language models, on a loopback port: Anthropic's Messages, OpenAI's chat
// completions and Responses, and Google's Gemini, streamed or whole, with tools. It checks and keeps what it was sent.
//
// It has no will of its own. What it says is in the prompts that it is given: each line of the latest prompt that begins
// with "model: " is one answer, in order.
//
//	model: say TEXT            a text, and the end of the turn; TEXT that begins with " is JSON, for more than one line
//	model: tool NAME JSON      a call of a tool; ${a.b} in the JSON is what the latest result that has it says at a.b
//	model: tools JSON          several calls at once: [{"name": ..., "input": {...}}, ...]
//	model: hang NAME           no answer until the test opens the gate of the name; then "Went on"
//	model: forever TEXT        TEXT, and then more of the same answer until the caller goes or the gate "forever" is open
//	model: cut TEXT            TEXT, and then the connection breaks
//	model: refuse STATUS TEXT  an error of the API
//
// A prompt without such lines is answered by "You said: " and the prompt. Which answer comes next follows from the
// conversation alone, so any number of conversations can be had at a time.
package model
