package model

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// Step is one answer.
type Step struct {
	Text   string
	Calls  []Call // tools that it calls; their ids are made up
	Status int    // of an error of the API, whose message is Text; 0: none
	Gate   string // the gate it waits at before it says Text
	// Forever writes on after Text until the caller goes or the gate "forever" is open. Cut breaks the connection then.
	Forever, Cut bool
}

var (
	stepLine  = regexp.MustCompile(`(?m)^model: (\w+) ?(.*)$`)
	reference = regexp.MustCompile(`\$\{[\w.]+\}`)
)

// Prompt is the prompt that the conversation is about now, and answers is how many answers it got. That is the latest
// one, but a script that was begun goes on with what is said in between until it is done.
func (r Request) Prompt() (text string, answers int) {
	left := 0 // of the script's answers
	for _, m := range r.Messages {
		switch {
		case m.Role == "assistant":
			answers++
		case m.Role != "user" || isReminder(m.Text):
		case answers == 0 || answers >= left || stepLine.MatchString(m.Text):
			text, answers, left = m.Text, 0, len(stepLine.FindAllString(m.Text, -1))
		}
	}
	return text, answers
}

// isReminder reports whether the text is what Claude Code adds to what its user says.
func isReminder(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "<system-reminder>")
}

// Scripted is the answer that the conversation asks for.
func Scripted(r Request) Step {
	text, answers := r.Prompt()
	lines := stepLine.FindAllStringSubmatch(text, -1)
	if len(lines) == 0 {
		return Step{Text: "You said: " + text}
	}
	if answers >= len(lines) {
		return Step{Text: "There is nothing more to do."}
	}
	verb, rest := lines[answers][1], lines[answers][2]
	switch verb {
	case "say":
		return Step{Text: unquote(rest)}
	case "tool":
		name, input, _ := strings.Cut(rest, " ")
		if input == "" {
			input = "{}"
		}
		return Step{Text: "Now " + name, Calls: []Call{{Name: name, Input: r.fill(input)}}}
	case "tools":
		var calls []Call
		if err := json.Unmarshal(r.fill(rest), &calls); err != nil {
			return Step{Status: 400, Text: "model: tools: " + err.Error()}
		}
		return Step{Calls: calls}
	case "hang":
		return Step{Gate: rest, Text: "Went on"}
	case "forever":
		return Step{Text: unquote(rest), Forever: true}
	case "cut":
		return Step{Text: unquote(rest), Cut: true}
	case "refuse":
		status, message, _ := strings.Cut(rest, " ")
		if n, err := strconv.Atoi(status); err == nil {
			return Step{Status: n, Text: message}
		}
		return Step{Status: 400, Text: rest}
	}
	return Step{Status: 400, Text: "model: there is no " + verb}
}

// unquote returns a text that may be written as JSON.
func unquote(s string) string {
	var text string
	if strings.HasPrefix(s, `"`) && json.Unmarshal([]byte(s), &text) == nil {
		return text
	}
	return s
}

// fill puts what results of tools say in place of references.
func (r Request) fill(input string) json.RawMessage {
	return json.RawMessage(reference.ReplaceAllStringFunc(input, func(ref string) string {
		return r.lookup(strings.Split(ref[2:len(ref)-1], "."))
	}))
}

// lookup returns the text at the path in the latest result of a tool that is JSON and has it.
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
