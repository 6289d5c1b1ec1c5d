package fake

import (
	"encoding/base64"
	"errors"
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
	verb  string
	text  string
	count int
	wait  time.Duration
	cost  float64
	usage fleet.Usage
	bytes []byte
	gap   fleet.Gap
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
		in, ok := parseLine(line)
		s.instructions = append(s.instructions, in)
		if !ok {
			break
		}
	}
	return s
}

// parseLine parses one line. It returns false if the script ends with this line.
func parseLine(line string) (instruction, bool) {
	verb, text, _ := strings.Cut(line, " ")
	text = strings.TrimSpace(text)
	in := instruction{verb: verb, text: text}
	var err error
	switch verb {
	case "echo", "step", "warn", "data", "payload", "output", "change":
		return in, true
	case "ask", "ask-permission":
		if text != "" {
			return in, true
		}
	case "ask-policy":
		if words := strings.Fields(text); len(words) == 2 {
			return in, true
		}
	case "ask-within":
		limit, what, _ := strings.Cut(text, " ")
		if in.wait, err = time.ParseDuration(limit); err == nil && what != "" {
			in.text = what
			return in, true
		}
	case "done", "fail":
		return in, false
	case "fail-first":
		if words := strings.Fields(text); len(words) == 2 {
			in.text = words[1]
			in.count, err = strconv.Atoi(words[0])
			return in, err == nil
		}
	case "lost", "session":
		if text != "" {
			return in, true
		}
	case "listen", "crash":
		if text == "" {
			return in, verb == "listen"
		}
	case "wait":
		if text != "" && !strings.Contains(text, " ") {
			return in, true
		}
	case "work":
		if in.wait, err = time.ParseDuration(text); err == nil {
			return in, true
		}
	case "exit":
		if in.count, err = strconv.Atoi(text); err == nil {
			return in, false
		}
	case "open":
		if in.count, err = strconv.Atoi(text); err == nil {
			return in, true
		}
	case "repeat":
		n, what, _ := strings.Cut(text, " ")
		if in.count, err = strconv.Atoi(n); err == nil {
			in.text = what
			return in, true
		}
	case "binary":
		if in.bytes, err = base64.StdEncoding.DecodeString(text); err == nil {
			return in, true
		}
	case "gap":
		if _, err = fmt.Sscanf(text, "%d %d", &in.gap.Offset, &in.gap.Size); err == nil {
			return in, true
		}
	case "usage":
		words := strings.Fields(text)
		if len(words) == 3 {
			var errs [2]error
			in.usage.Model = words[0]
			in.usage.InputTokens, errs[0] = strconv.ParseInt(words[1], 10, 64)
			in.usage.OutputTokens, errs[1] = strconv.ParseInt(words[2], 10, 64)
			if errors.Join(errs[:]...) == nil {
				return in, true
			}
		}
	case "cost":
		usd, turns, _ := strings.Cut(text, " ")
		if in.cost, err = strconv.ParseFloat(usd, 64); err == nil {
			if in.count, err = strconv.Atoi(turns); err == nil {
				return in, true
			}
		}
	}
	return instruction{verb: "done"}, false
}
