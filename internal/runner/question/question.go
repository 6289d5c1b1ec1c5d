package question

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Names in the directory of a run.
const (
	AsksDir    = "asks"
	Pipe       = AsksDir + "/pipe"
	AnswersDir = "answers"
	Journal    = "questions"
)

// Verbs of the lines in the pipe.
const (
	VerbAsk  = "ask"  // the program has written a question
	VerbGot  = "got"  // the program has read the answer
	VerbDrop = "drop" // the program no longer waits for the answer
)

// Kinds of questions.
const (
	KindPermission = "permission" // a request for permission to use a tool
	KindText       = "question"
)

// Answers to a request for permission.
const (
	Allow = "allow"
	Deny  = "deny"
)

// Question is a question of the program. Only requests for permission have a Tool, a ToolKind, an Input and Rules.
type Question struct {
	Kind     string          `json:"kind"`
	Text     string          `json:"text,omitempty"`
	Tool     string          `json:"tool,omitempty"`
	ToolKind string          `json:"sort,omitempty"`  // kind of the tool, such as edit or execute; if empty, derived from Tool
	Input    json.RawMessage `json:"input,omitempty"` // arguments of the tool
	Options  []string        `json:"options,omitempty"`
	Rules    []string        `json:"rules,omitempty"` // rules, suggested by the program, that would allow the call
}

// MaxQuestion limits the size of a question's file, in bytes.
const MaxQuestion = 1 << 20

// Statuses of a question.
const (
	Waiting   = "waiting"
	Answered  = "answered"
	Expired   = "expired"
	Withdrawn = "withdrawn"
	Refused   = "refused" // the supervisor did not accept the question, and did not record it in the journal
)

// Answer is the answer that the program gets.
type Answer struct {
	Status  string `json:"status"` // Answered, Expired or Refused
	Answer  string `json:"answer,omitempty"`
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"` // who answered: a person, or the run's policy
}

// Allowed reports whether a request for permission was granted.
func (a Answer) Allowed() bool { return a.Status == Answered && a.Answer == Allow }

// Reason returns why the program got no answer or no permission.
func (a Answer) Reason() string {
	switch {
	case a.Status == Expired:
		return "nobody answered in time"
	case a.Message != "":
		return a.Message
	case a.Status == Refused:
		return "nobody could be asked"
	}
	return "denied by " + a.By
}

// Record is a line of the journal. The first record with an ID contains the question. Later records change its status.
type Record struct {
	ID        string          `json:"id"`
	Status    string          `json:"status"`
	Kind      string          `json:"kind,omitempty"`
	Text      string          `json:"text,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Options   []string        `json:"options,omitempty"`
	Rules     []string        `json:"rules,omitempty"` // rules that allow later calls if the answer is remembered
	AskedAt   time.Time       `json:"asked_at,omitzero"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`

	Answer     string    `json:"answer,omitempty"`
	Message    string    `json:"message,omitempty"`
	By         string    `json:"by,omitempty"`
	AnsweredAt time.Time `json:"answered_at,omitzero"`
}

// Pauses between the attempts to read an answer.
const (
	minPollInterval = 5 * time.Millisecond
	maxPollInterval = 100 * time.Millisecond
)

// Ask sends a question to the supervisor of the run in the directory, and waits for the answer. If the context ends, Ask withdraws
// the question and returns the context's error. A question that is longer than MaxQuestion gets the answer Refused.
func Ask(ctx context.Context, runDir string, q Question) (Answer, error) {
	data, err := json.Marshal(q)
	if err != nil {
		return Answer{}, err
	}
	if len(data) > MaxQuestion {
		return Answer{Status: Refused, Message: fmt.Sprintf("the question has %d bytes, and the limit is %d: shorten it", len(data), MaxQuestion)}, nil
	}
	var id [16]byte
	_, _ = rand.Read(id[:])
	name := hex.EncodeToString(id[:])
	file := filepath.Join(runDir, AsksDir, name+".json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return Answer{}, err
	}
	defer func() { _ = os.Remove(file) }()
	if err := writeLine(runDir, VerbAsk, name); err != nil {
		return Answer{}, err
	}
	for pause := minPollInterval; ; pause = min(2*pause, maxPollInterval) {
		a, err := readAnswer(filepath.Join(runDir, AnswersDir, name))
		if err == nil {
			_ = writeLine(runDir, VerbGot, name) // the answer is valid even if this fails
			return a, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return Answer{}, err
		}
		select {
		case <-ctx.Done():
			return Answer{}, errors.Join(ctx.Err(), writeLine(runDir, VerbDrop, name))
		case <-time.After(pause):
		}
	}
}

// writeLine writes a line to the supervisor's pipe. It fails if no supervisor reads the pipe.
func writeLine(runDir, verb, name string) error {
	f, err := os.OpenFile(filepath.Join(runDir, Pipe), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(verb + " " + name + "\n") // one write, which is atomic because it is shorter than PIPE_BUF
	return errors.Join(err, f.Close())
}

func readAnswer(path string) (a Answer, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	return a, err
}
