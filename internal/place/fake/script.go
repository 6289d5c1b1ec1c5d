package fake

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// script is a parsed prompt.
type script struct {
	instructions    []instruction
	defaultSummary  string // the summary of a run that no instruction ends
	ignoreInterrupt bool
	ignoreKill      bool
	terminal        bool
}

// instruction is one line of a script. The verb determines which fields are set.
type instruction struct {
	verb     string
	text     string
	count    int
	duration time.Duration
	cost     float64
	usage    fleet.Usage
	bytes    []byte
	gap      fleet.Gap
}

// fixPrefix is the prefix of instructions in feedback, see instructionsOf. Checks and conflicts write such lines.
const fixPrefix = "fix: "

// instructionsOf returns the script of the run. If the feedback of the run has lines that begin with "fix: ", or the prompt
// quotes such lines, the script consists of these lines without the prefix. Otherwise the script is the prompt.
func instructionsOf(r fleet.Run) string {
	var lines []string
	for line := range strings.Lines(r.Feedback + "\n" + r.Prompt) {
		if text, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "# > "), fixPrefix); ok {
			lines = append(lines, text)
		}
	}
	if len(lines) == 0 {
		return r.Prompt
	}
	return strings.Join(lines, "\n")
}

// parseScript parses the prompt. It ignores the lines after an instruction that always ends the run.
func parseScript(prompt string) script {
	first, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	s := script{defaultSummary: "Handled: " + strings.TrimSpace(first)}
	for line := range strings.Lines(prompt) {
		line = strings.TrimSpace(line)
		switch line {
		case "":
			continue
		case "ignore-interrupt":
			s.ignoreInterrupt = true
			continue
		case "ignore-kill":
			s.ignoreInterrupt, s.ignoreKill = true, true
			continue
		case "terminal":
			s.terminal = true
			continue
		}
		in, more := parseLine(line)
		s.instructions = append(s.instructions, in)
		if !more {
			break
		}
	}
	return s
}

// parseLine parses one line. more is false if the script ends with this line.
func parseLine(line string) (in instruction, more bool) {
	verb, text, _ := strings.Cut(line, " ")
	text = strings.TrimSpace(text)
	in = instruction{verb: verb, text: text}
	var err error
	valid, more := false, true
	switch verb {
	case "echo", "step", "warn", "data", "payload", "output", "change":
		valid = true
	case "done", "fail":
		valid, more = true, false
	case "ask", "ask-permission", "lost", "session":
		valid = text != ""
	case "ask-policy":
		valid = len(strings.Fields(text)) == 2
	case "ask-within":
		limit, what, _ := strings.Cut(text, " ")
		in.duration, err = time.ParseDuration(limit)
		in.text, valid = what, err == nil && what != ""
	case "fail-first":
		valid = scanWords(text, &in.count, &in.text)
	case "listen":
		valid = text == ""
	case "crash":
		valid, more = text == "", false
	case "wait":
		valid = text != "" && !strings.Contains(text, " ")
	case "work":
		in.duration, err = time.ParseDuration(text)
		valid = err == nil
	case "exit":
		valid, more = scanWords(text, &in.count), false
	case "open":
		valid = scanWords(text, &in.count)
	case "repeat":
		count, what, _ := strings.Cut(text, " ")
		in.count, err = strconv.Atoi(count)
		in.text, valid = what, err == nil
	case "binary":
		in.bytes, err = base64.StdEncoding.DecodeString(text)
		valid = err == nil
	case "gap":
		valid = scanWords(text, &in.gap.Offset, &in.gap.Size)
	case "usage":
		valid = scanWords(text, &in.usage.Model, &in.usage.InputTokens, &in.usage.OutputTokens)
	case "cost":
		valid = scanWords(text, &in.cost, &in.count)
	}
	if !valid {
		return instruction{verb: "done"}, false
	}
	return in, more
}

// scanWords stores the words of the text in values, one in each. It returns false if their number or a word does not fit.
func scanWords(text string, values ...any) bool {
	_, err := fmt.Sscan(text, values...)
	return err == nil && len(strings.Fields(text)) == len(values)
}
