package model

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// Answer is an answer of the model.
type Answer struct {
	Thought string // the model's thought before Text
	Text    string
	Calls   []Call // tool calls; their ids are generated
	Status  int    // if not 0, the answer is an API error with this status and the message Text
	Gate    string // name of the gate at which the answer waits before it begins; empty if it does not wait
	// Forever makes the answer continue after Text until the client disconnects or the gate "forever" is open.
	Forever bool
	Cut     bool // the connection breaks after Text
	// FirstStatus is the status of an API error that answers the first request. If the client repeats the request, it gets this
	// answer. 0 means that there is no such error.
	FirstStatus int
}

var (
	answerLinePattern = regexp.MustCompile(`(?m)^model: (\w+) ?(.*)$`)
	referencePattern  = regexp.MustCompile(`\$\{[\w.]+\}`)
)

// Prompt returns the current prompt, and the number of answers that it has so far. The current prompt is the latest
// prompt. But a prompt without a script does not replace an earlier one whose script has begun and is not finished.
func (r Request) Prompt() (text string, answers int) {
	scripted := 0 // how many answers the script of the prompt has
	for _, m := range r.Messages {
		switch {
		case m.Role == "assistant":
			answers++
		case m.Role != "user" || isReminder(m.Text):
		case answers == 0 || answers >= scripted || answerLinePattern.MatchString(m.Text):
			text, answers, scripted = m.Text, 0, len(answerLinePattern.FindAllString(m.Text, -1))
		}
	}
	return text, answers
}

// isReminder reports whether Claude Code, and not the user, has added the text.
func isReminder(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "<system-reminder>")
}

// ScriptedAnswer returns the next answer of the script in the current prompt. Without a script, it is "You said: " and the prompt.
func ScriptedAnswer(r Request) Answer {
	text, answers := r.Prompt()
	lines := answerLinePattern.FindAllStringSubmatch(text, -1)
	if len(lines) == 0 {
		return Answer{Text: "You said: " + text}
	}
	if answers >= len(lines) {
		return Answer{Text: "There is nothing more to do."}
	}
	return r.answer(lines[answers][1], lines[answers][2])
}

// answer returns the answer that a line of the script describes.
func (r Request) answer(verb, rest string) Answer {
	switch verb {
	case "say":
		return Answer{Text: unquote(rest)}
	case "tool":
		name, input, _ := strings.Cut(rest, " ")
		if input == "" {
			input = "{}"
		}
		return Answer{Text: "Now " + name, Calls: []Call{{Name: name, Input: r.fillReferences(input)}}}
	case "tools":
		var calls []Call
		if err := json.Unmarshal(r.fillReferences(rest), &calls); err != nil {
			return Answer{Status: 400, Text: "model: tools: " + err.Error()}
		}
		return Answer{Calls: calls}
	case "hang":
		return Answer{Gate: rest, Text: "Went on"}
	case "forever":
		return Answer{Text: unquote(rest), Forever: true}
	case "cut":
		return Answer{Text: unquote(rest), Cut: true}
	case "think":
		in := json.NewDecoder(strings.NewReader(rest))
		thought := ""
		if err := in.Decode(&thought); err != nil {
			return Answer{Status: 400, Text: "model: think: " + err.Error()}
		}
		verb, rest, _ = strings.Cut(strings.TrimSpace(rest[in.InputOffset():]), " ")
		s := r.answer(verb, rest)
		s.Thought = thought
		return s
	case "later":
		status, rest, _ := strings.Cut(rest, " ")
		verb, rest, _ = strings.Cut(rest, " ")
		s := r.answer(verb, rest)
		if n, err := strconv.Atoi(status); err == nil {
			s.FirstStatus = n
		}
		return s
	case "refuse":
		status, message, _ := strings.Cut(rest, " ")
		if n, err := strconv.Atoi(status); err == nil {
			return Answer{Status: n, Text: message}
		}
		return Answer{Status: 400, Text: rest}
	}
	return Answer{Status: 400, Text: "model: there is no " + verb}
}

// unquote decodes the text if it is a JSON string. Otherwise it returns the text unchanged.
func unquote(s string) string {
	var text string
	if strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &text) == nil {
		return text
	}
	return s
}

// fillReferences replaces references like ${a.b} by values from tool results.
func (r Request) fillReferences(input string) json.RawMessage {
	return json.RawMessage(referencePattern.ReplaceAllStringFunc(input, func(ref string) string {
		return r.lookup(strings.Split(ref[2:len(ref)-1], "."))
	}))
}

// lookup returns the text at the path, or "" if there is none. It uses the latest tool result that is JSON and has a text there.
func (r Request) lookup(path []string) (found string) {
	for _, result := range r.Results() {
		var v any
		if json.Unmarshal([]byte(result.Text), &v) != nil {
			continue
		}
		for _, key := range path {
			object, _ := v.(map[string]any)
			v = object[key]
		}
		if s, ok := v.(string); ok {
			found = s
		}
	}
	return found
}
