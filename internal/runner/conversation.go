package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/shim"
)

// conversation returns the conversation that the run continues, and when it was last used. lost tells why the run
// cannot continue the agent's conversation.
func (h Home) conversation(d driver.Driver, r fleet.Run) (session string, since time.Time, lost string) {
	if _, ok := d.(driver.ConversationDriver); !ok {
		return "", time.Time{}, ""
	}
	if info, err := os.Lstat(h.path("session")); err == nil {
		since = info.ModTime()
	}
	session = h.read("session")
	if session == "" && r.Continues {
		return "", since, "nothing of the last one is left on the agent's machine"
	}
	// A recorded file existed when the last run ended. Without a record, only the program can tell that the conversation is
	// lost.
	if record := h.read("record"); session != "" && record != "" {
		if _, err := os.Lstat(record); errors.Is(err, fs.ErrNotExist) {
			return "", since, "the file of the last one is gone from the agent's machine"
		}
	}
	return session, since, ""
}

// recordPattern returns the pattern of the files in which the program will store the conversation of the run.
func recordPattern(w Work, env []string) string {
	recorder, ok := w.Driver.(driver.ConversationFiles)
	if !ok || w.Job.OneTask {
		return ""
	}
	dir, err := filepath.EvalSymlinks(w.Dir) // the program sees the real path
	if err != nil {
		return ""
	}
	return recorder.Record(env, dir)
}

// remember stores the conversation that the agent's next run continues.
func (h Home) remember(f driver.Format, r driver.Result) error {
	if !h.exists() {
		return nil
	}
	if r.Forget {
		return errors.Join(h.remove("session"), h.remove("record"))
	}
	if r.Session == "" {
		return nil
	}
	// An unchanged value is written too, because the file's time tells when the conversation was last used.
	if err := shim.WriteFile(h.path("session"), []byte(r.Session), 0o600); err != nil {
		return err
	}
	found, _ := filepath.Glob(driver.RecordOf(f.Record, r.Session)) // an invalid pattern matches nothing
	if len(found) == 0 {
		return h.remove("record")
	}
	if found[0] == h.read("record") {
		return nil
	}
	return shim.WriteFile(h.path("record"), []byte(found[0]), 0o600)
}

// remove removes a file of the agent if it exists.
func (h Home) remove(name string) error {
	if err := os.Remove(h.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
