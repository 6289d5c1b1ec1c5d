package local

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"fleet/internal/backend/local/driver"
	"fleet/internal/backend/local/shim"
	"fleet/internal/fleet"
)

// maxSummary is the longest summary a program can write into its file, in bytes.
const maxSummary = 4000

// maxStderr is how much of a program's errors is looked at, from their end, in bytes.
const maxStderr = 8 << 10

// outcome says what the run came to.
func (b *Backend) outcome(h home, run shim.Run, f *follower, exit *shim.Exit) (fleet.Outcome, error) {
	result := f.parser.Result(driver.Exit{Code: exit.Code, Signal: exit.Signal, Stderr: tail(run.Path("stderr"), maxStderr)})
	if err := h.remember(result); err != nil {
		return fleet.Outcome{}, hostError("the agent's conversation cannot be written down", err)
	}
	o := result.Outcome
	if s := strings.TrimSpace(head(run.Path("summary"), maxSummary)); s != "" {
		o.Summary = s
	}
	if p := head(run.Path("payload"), b.config.MaxOutput); p != "" {
		o.Payload = []byte(p)
	} else if f.format.Kind == "text" {
		if all := strings.TrimSpace(head(run.Path("output"), b.config.MaxOutput)); all != o.Summary {
			o.Payload = []byte(all)
		}
	}
	switch exit.End {
	case shim.Deadline:
		o.Status = fleet.TaskFailed
		o.Reason = "it ran longer than its time limit of " + f.spec.Timeout.String()
	case shim.Interrupted:
		o.Status, o.Reason = fleet.TaskStopped, exit.Reason
	case shim.Lost, shim.NotStarted:
		o.Status, o.Reason = fleet.TaskFailed, exit.Reason
	}
	if exit.Trouble != "" && o.Status == fleet.TaskFailed {
		o.Reason += " (" + exit.Trouble + ")"
	}
	return o, nil
}

// remember keeps the conversation that the agent's next run goes on with.
func (h home) remember(r driver.Result) error {
	switch known := h.read("session"); {
	case r.Forget:
		if err := os.Remove(h.path("session")); err != nil && !os.IsNotExist(err) {
			return err
		}
	case r.Session != "" && r.Session != known && h.exists():
		return shim.WriteFile(h.path("session"), []byte(r.Session), 0o600)
	}
	return nil
}

// head returns the beginning of a file as text, at most limit bytes; empty when it is not there. The program may have
// made anything of its files: what is no regular file is not opened, since that can block.
func head(path string, limit int64) string {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	b, _ := io.ReadAll(io.LimitReader(f, limit))
	s := driver.Clean(b)
	if int64(len(s)) > limit { // replacements are longer than what they replace
		cut := int(limit)
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut]
	}
	return s
}

// tail returns the end of a file as text, at most limit bytes.
func tail(path string, limit int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		if _, err := f.Seek(-limit, io.SeekEnd); err != nil {
			return ""
		}
	}
	b, _ := io.ReadAll(io.LimitReader(f, limit))
	return driver.Clean(b)
}
