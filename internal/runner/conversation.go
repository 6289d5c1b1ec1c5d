package runner

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
)

// conversation returns the conversation that the run continues, and when that conversation was last used. session is empty if the
// run begins a conversation. If the agent has a conversation that the run cannot continue, lostReason says why.
func (h Home) conversation(d driver.Driver, r fleet.Run) (session string, usedAt time.Time, lostReason string) {
	if _, ok := d.(driver.ConversationDriver); !ok {
		return "", time.Time{}, ""
	}
	file, recordFile := conversationFiles(r.Conversation)
	if info, err := os.Lstat(h.path(file)); err == nil {
		usedAt = info.ModTime()
	}
	session = h.readText(file)
	if session == "" && r.Continues {
		return "", usedAt, "the agent's machine no longer has the previous conversation"
	}
	// The recorded file existed when the last run ended. Without a record, only the program can detect that the
	// conversation is lost.
	if record := h.readText(recordFile); session != "" && record != "" {
		if found, err := sandbox.Find(context.Background(), driver.LiteralPattern(record)); err == nil && found == "" {
			return "", usedAt, "the file of the previous conversation was removed from the agent's machine"
		}
	}
	return session, usedAt, ""
}

// conversationFiles returns the names of the files session and record (see Home) for the conversation with the name. Runs that
// name no conversation continue the one with the empty name.
func conversationFiles(name string) (session, record string) {
	if name == "" {
		return "session", "record"
	}
	return "session-" + FileName(name), "record-" + FileName(name)
}

// maxConversations is how many conversations with names an agent keeps.
const maxConversations = 50

// forgetOldest removes the oldest conversation with a name if there are more than maxConversations.
func (h Home) forgetOldest() error {
	all, err := filepath.Glob(h.path("session-*"))
	if err != nil || len(all) <= maxConversations {
		return err
	}
	oldest, oldestTime := "", time.Now()
	for _, file := range all {
		if info, err := os.Lstat(file); err == nil && info.ModTime().Before(oldestTime) {
			oldest, oldestTime = filepath.Base(file), info.ModTime()
		}
	}
	if oldest == "" {
		return nil
	}
	return errors.Join(h.removeFile(oldest), h.removeFile("record-"+strings.TrimPrefix(oldest, "session-")))
}

// recordPattern returns a pattern for the file in which the program will store the run's conversation. The pattern is empty if it
// is unknown, or if no later run continues the conversation.
func recordPattern(w Work, env []string) string {
	recorder, ok := w.Driver.(driver.ConversationFileDriver)
	if !ok || w.Job.OneTask {
		return ""
	}
	dir, err := filepath.EvalSymlinks(w.Dir) // the program sees the real path
	if err != nil {
		return ""
	}
	return recorder.ConversationPattern(env, dir)
}

// storeConversation stores which conversation the agent's next run continues. r is the result of the run that has ended. If the
// agent was deleted, storeConversation does nothing.
func (h Home) storeConversation(f driver.Format, r driver.Result) error {
	if !h.exists() {
		return nil
	}
	file, recordFile := conversationFiles(f.Conversation)
	if r.LostConversation {
		return errors.Join(h.removeFile(file), h.removeFile(recordFile))
	}
	if r.Session == "" || f.NotStored { // the next attempt at the task, for example after failed checks, begins a new conversation
		return nil
	}
	// An unchanged value is written too, because the file's time shows when the conversation was last used.
	if err := shim.WriteFile(h.path(file), []byte(r.Session)); err != nil {
		return err
	}
	if f.Conversation != "" {
		if err := h.forgetOldest(); err != nil {
			return err
		}
	}
	recordPath := ""
	if pattern := driver.SessionPattern(f.ConversationPattern, r.Session); pattern != "" {
		recordPath, _ = sandbox.Find(context.Background(), pattern) // an error means that the record is unknown
	}
	if recordPath == "" {
		return h.removeFile(recordFile)
	}
	if recordPath == h.readText(recordFile) {
		return nil
	}
	return shim.WriteFile(h.path(recordFile), []byte(recordPath))
}

// removeFile removes a file of the agent if it exists.
func (h Home) removeFile(name string) error {
	if err := os.Remove(h.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
