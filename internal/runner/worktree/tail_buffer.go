package worktree

// tailBuffer keeps the last maxMessage bytes that are written to it. They contain git's reason for a failure.
type tailBuffer struct{ text []byte }

// maxMessage limits how much of git's error messages is kept, in bytes. git can write a message about each object of an agent.
const maxMessage = 64 << 10

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.text = append(t.text, p[max(0, len(p)-maxMessage):]...)
	if extra := len(t.text) - maxMessage; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string { return string(t.text) }
