package shim

import (
	"fmt"
	"strings"
	"time"

	"fleet/internal/place/agentfile"
)

// logEnd appends a line about the end of the run to the agent's log.
func logEnd(spec Spec, e Exit) {
	words := []string{string(e.End)}
	switch {
	case e.Signal != "":
		words = append(words, "by signal "+e.Signal)
	case e.Code >= 0:
		words = append(words, fmt.Sprintf("with code %d", e.Code))
	}
	if e.Reason != "" {
		words = append(words, "("+e.Reason+")")
	}
	if e.Problem != "" {
		words = append(words, "; "+e.Problem)
	}
	spec.log("ended: " + strings.Join(words, " "))
}

// log appends a line about the run to the agent's log.
func (s Spec) log(what string) {
	if s.Log != "" {
		AppendLog(s.Log, "run "+s.Name+" "+what)
	}
}

// AppendLog appends a line with the time to a log. It ignores errors and does not create the log.
func AppendLog(path, line string) {
	line = time.Now().UTC().Format(time.RFC3339) + " " + strings.ReplaceAll(line, "\n", " ") + "\n"
	_ = agentfile.Append(path, []byte(line))
}
