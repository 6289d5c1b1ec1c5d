package npm

import (
	"encoding/json"
	"regexp"
	"strings"
)

// step is one answer of the model. A prompt contains a line for each answer that the model gives to it:
//
//	model: say TEXT         a text, and the end of the turn; \n begins a new line
//	model: tool NAME JSON   a call of a tool; ${a.b} in the JSON is replaced by the value at a.b in the latest result
//	                        that has one, and ${self} by the agent_id in the system prompt
//	model: tools JSON       several calls in one answer: a list of {"name": ..., "input": ...}
//	model: think TEXT       a thought, and a call of Bash that echoes one word
//	model: later TEXT       the error that the model is overloaded, and after the retry the same as say
//	model: limit TEXT       the first time, the error that the window of the subscription is used up; later the same as say
//	model: extra TEXT       the same as say, but the window is used up and the subscription pays for the excess
//	model: hang NAME        no answer until the test opens the gate
//	model: refuse MESSAGE   an error of the API
//
// The conversation alone determines which line comes next, so the model can hold any number of conversations at a
// time.
type step struct {
	verb, text, tool string
	input            json.RawMessage
}

// stepLinePattern matches a line for an answer. Such a line can also come from the output of a failed check, which Fleet quotes
// behind "# > ".
var stepLinePattern = regexp.MustCompile(`(?m)^(?:# > )?model: (\w+) ?(.*)$`)

// prompt returns the latest prompt that is a script, and the number of answers that the model has given to it.
func (r request) prompt() (text string, answers int) {
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			answers++
			continue
		}
		for _, b := range m.Content {
			if m.Role == "user" && b.Type == "text" && stepLinePattern.MatchString(b.Text) {
				text, answers = b.Text, 0
			}
		}
	}
	return text, answers
}

// nextStep returns the answer to the request.
func (r request) nextStep() step {
	text, answers := r.prompt()
	lines := stepLinePattern.FindAllStringSubmatch(text, -1)
	if answers >= len(lines) {
		return step{verb: "say", text: "There is nothing more to do."}
	}
	s := step{verb: lines[answers][1], text: lines[answers][2]}
	if s.verb == "say" {
		s.text = strings.ReplaceAll(s.text, `\n`, "\n")
	}
	if s.verb == "tool" {
		name, input, _ := strings.Cut(s.text, " ")
		s.tool = name
		s.input = json.RawMessage(referencePattern.ReplaceAllStringFunc(input, func(ref string) string {
			if ref == "${self}" {
				return firstGroup(selfLinePattern.FindStringSubmatch(r.System.text()))
			}
			return r.lookup(strings.Split(ref[2:len(ref)-1], "."))
		}))
	}
	return s
}

var selfLinePattern = regexp.MustCompile(`Your agent_id is ([0-9a-f-]+)\.`)

// firstGroup returns the first group of a match, or "" if there was no match.
func firstGroup(match []string) string {
	if len(match) < 2 {
		return ""
	}
	return match[1]
}

var referencePattern = regexp.MustCompile(`\$\{[\w.]+\}`)

// lookup returns the text at the path in the latest tool result that is JSON and has a text there, or "" if no result
// has one.
func (r request) lookup(path []string) (found string) {
	for _, result := range r.results() {
		var v any
		if json.Unmarshal([]byte(result.Content.text()), &v) != nil {
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
