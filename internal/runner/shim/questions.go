package shim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/acp"
	"fleet/internal/runner/question"
)

// QuestionConfig configures questions of the child, see package question.
type QuestionConfig struct {
	acp.Rules               // rules that answer requests for permission before a person is asked
	Timeout   time.Duration `json:"timeout"` // how long a question waits for its answer
}

// Limits for the questions of one run. The child can write anything into its directory.
const (
	maxOpen     = 20       // open questions
	maxRecorded = 500      // questions in the journal
	maxJournal  = 16 << 20 // size of the journal, in bytes
	maxNames    = 1000     // questions that are open, or whose answers the child has not read
	maxText     = 16 << 10 // size of a question, in bytes
	maxInput    = 64 << 10 // size of a tool's input in the journal, in bytes
	maxOptions  = 20
	maxLabel    = 200 // size of the name of a tool or an option, in bytes
)

// PolicyName is recorded as the answerer of a request for permission that the run's rules have answered.
const PolicyName = "policy"

// questions accepts the questions of the child, and passes the answers to it.
type questions struct {
	config QuestionConfig
	run    Run
	onGrow func() // called when the journal has grown
	pipe   *os.File
	done   chan struct{} // closed when serve has ended

	mu          sync.Mutex
	journal     *os.File
	incomplete  bool                     // the journal's last line is incomplete
	journalSize int                      // the journal's size in bytes
	idsByName   map[string]string        // ids of questions, by the child's names; the id is empty if the question is not recorded
	open        map[string]*openQuestion // by id
	closed      map[string]string        // statuses of closed questions, by id
	finished    bool                     // finish was called
}

// openQuestion is a question that waits for its answer.
type openQuestion struct {
	name  string
	kind  string
	rules []string // rules that are added if the answer is remembered
	timer *time.Timer
}

// newQuestions creates the files for questions in the run's directory, which is the working directory.
func newQuestions(config QuestionConfig, run Run, onGrow func()) (*questions, error) {
	for _, dir := range []string{question.AsksDir, question.AnswersDir} {
		if err := os.MkdirAll(run.Path(dir), 0o700); err != nil {
			return nil, err
		}
	}
	if err := syscall.Mkfifo(run.Path(question.Pipe), 0o600); err != nil {
		return nil, fmt.Errorf("cannot create the pipe for questions: %w", err)
	}
	// The pipe is opened for reading and writing, because then reading never reports an end.
	pipe, err := os.OpenFile(run.Path(question.Pipe), os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	journal, err := agentfile.OpenAppend(run.Path(question.Journal))
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	return &questions{
		config: config, run: run, onGrow: onGrow, pipe: pipe, journal: journal, done: make(chan struct{}),
		idsByName: map[string]string{}, open: map[string]*openQuestion{}, closed: map[string]string{},
	}, nil
}

var askLinePattern = regexp.MustCompile(`^(ask|got|drop) ([A-Za-z0-9]{1,40})$`)

// serve reads the pipe until finish closes it.
func (a *questions) serve() {
	defer close(a.done)
	lines := bufio.NewReader(a.pipe)
	for atLineStart := true; ; {
		line, err := lines.ReadSlice('\n')
		whole := atLineStart && err == nil
		atLineStart = err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		m := askLinePattern.FindSubmatch(bytes.TrimSuffix(line, []byte("\n")))
		if m == nil || !whole { // including the parts of a line that is longer than the buffer
			continue
		}
		switch name := string(m[2]); string(m[1]) {
		case question.VerbAsk:
			a.ask(name)
		case question.VerbGot:
			a.removeAnswer(name)
		case question.VerbDrop:
			a.withdraw(name)
		}
	}
}

// ask handles a new question with the name. It answers the question by the rules, refuses it, or records it as waiting.
// It ignores a name that is in use.
func (a *questions) ask(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.idsByName[name]; known || a.finished || len(a.idsByName) >= maxNames {
		return
	}
	a.idsByName[name] = ""
	q, err := readQuestion(a.run.Path(filepath.Join(question.AsksDir, name+".json")))
	if err != nil {
		a.refuse(name, err.Error())
		return
	}
	now := time.Now().UTC()
	r := question.Record{
		ID: strconv.Itoa(len(a.open) + len(a.closed) + 1), Status: question.Waiting, Kind: q.Kind, Text: truncateUTF8(q.Text, maxText), Tool: truncateUTF8(q.Tool, maxLabel),
		Input: shownInput(q.Input), AskedAt: now, ExpiresAt: now.Add(a.config.Timeout),
	}
	for _, o := range q.Options[:min(len(q.Options), maxOptions)] {
		r.Options = append(r.Options, truncateUTF8(o, maxLabel))
	}
	if q.Kind == question.KindPermission {
		r.Rules = a.config.Suggest(q.Rules, q.Tool, q.Text, q.ToolKind, q.Input)
		if allowed, decided, why := a.config.Decide(q.Tool, q.Text, q.ToolKind, q.Input); decided {
			r.Status, r.Answer, r.Message, r.By, r.AnsweredAt = question.Answered, question.Deny, why, PolicyName, now
			if allowed {
				r.Answer = question.Allow
			}
			if a.hasRoom() && a.record(r) == nil { // the rules apply even if the answer cannot be recorded
				a.idsByName[name], a.closed[r.ID] = r.ID, r.Status
			}
			a.writeAnswer(name, question.Answer{Status: r.Status, Answer: r.Answer, Message: r.Message, By: r.By})
			return
		}
	}
	switch {
	case len(a.open) >= maxOpen:
		a.refuse(name, fmt.Sprintf("%d questions wait for an answer already", maxOpen))
	case !a.hasRoom():
		a.refuse(name, "the task has asked too many questions")
	case a.record(r) != nil:
		a.refuse(name, "cannot store the question: the disk of this machine may be full")
	default:
		a.idsByName[name] = r.ID
		a.open[r.ID] = &openQuestion{name: name, kind: q.Kind, rules: r.Rules, timer: time.AfterFunc(a.config.Timeout, func() { a.expire(r.ID) })}
	}
}

// hasRoom reports whether the journal has room for another question.
func (a *questions) hasRoom() bool {
	return len(a.open)+len(a.closed) < maxRecorded && a.journalSize < maxJournal
}

// removeAnswer removes an answer that the child has read.
func (a *questions) removeAnswer(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id, known := a.idsByName[name]; known && a.open[id] == nil {
		_ = os.Remove(a.run.Path(filepath.Join(question.AnswersDir, name)))
		delete(a.idsByName, name)
	}
}

// withdraw withdraws a question that the child no longer waits for.
func (a *questions) withdraw(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := a.idsByName[name]
	if a.open[id] != nil && a.record(question.Record{ID: id, Status: question.Withdrawn}) == nil {
		a.close(id, question.Withdrawn)
	}
	if a.open[id] == nil {
		delete(a.idsByName, name)
	}
}

// expire closes a question that was not answered in time.
func (a *questions) expire(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.open[id]
	if q == nil || a.finished {
		return
	}
	_ = a.record(question.Record{ID: id, Status: question.Expired}) // Fleet also sees the expiry from ExpiresAt
	a.close(id, question.Expired)
	a.writeAnswer(q.name, question.Answer{Status: question.Expired})
}

// answer passes the answer to the child. It returns the error for the reply, or an empty string.
func (a *questions) answer(req controlRequest) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.open[req.ID]
	switch {
	case a.closed[req.ID] == question.Answered:
		return ""
	case a.finished:
		return replyEnded
	case a.closed[req.ID] != "":
		return replyClosed
	case q == nil:
		return replyUnknown
	}
	text := req.Text
	if q.kind == question.KindPermission && text != question.Allow {
		text = question.Deny
	}
	r := question.Record{ID: req.ID, Status: question.Answered, Answer: text, Message: req.Message, By: req.By, AnsweredAt: time.Now().UTC()}
	if err := a.record(r); err != nil {
		return replyNotStored
	}
	if text == question.Allow && req.Remember {
		a.config.Allow = append(a.config.Allow, q.rules...)
	}
	a.close(req.ID, question.Answered)
	a.writeAnswer(q.name, question.Answer{Status: r.Status, Answer: r.Answer, Message: r.Message, By: r.By})
	return ""
}

func (a *questions) close(id, status string) {
	a.open[id].timer.Stop()
	delete(a.open, id)
	a.closed[id] = status
}

// refuse answers a question that is not accepted.
func (a *questions) refuse(name, why string) {
	a.writeAnswer(name, question.Answer{Status: question.Refused, Message: why})
}

// writeAnswer writes the answer to the file from which the child reads it. If that fails, the child waits until the run
// ends.
func (a *questions) writeAnswer(name string, answer question.Answer) {
	b, err := json.Marshal(answer)
	if err == nil {
		err = WriteFile(a.run.Path(filepath.Join(question.AnswersDir, name)), b)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "an answer cannot be written:", err)
	}
}

// record appends the record to the journal.
func (a *questions) record(r question.Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if b = append(b, '\n'); a.incomplete {
		b = append([]byte{'\n'}, b...)
	}
	n, err := a.journal.Write(b)
	a.journalSize += n
	a.incomplete = err != nil && (n > 0 || a.incomplete)
	if err == nil {
		a.onGrow()
	}
	return err
}

// finish withdraws the open questions. Afterwards, no more questions are accepted.
func (a *questions) finish() {
	a.mu.Lock()
	a.finished = true
	for id := range a.open {
		_ = a.record(question.Record{ID: id, Status: question.Withdrawn}) // a failure does no harm, because the end of the run also closes its questions
		a.close(id, question.Withdrawn)
	}
	_ = a.pipe.Close()
	_ = a.journal.Close()
	a.mu.Unlock()
	<-a.done
}

func readQuestion(path string) (question.Question, error) {
	var q question.Question
	b, err := agentfile.Read(path, question.MaxQuestion)
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	switch {
	case err != nil:
		return q, errors.New("cannot read the question")
	case q.Kind == question.KindPermission && q.Tool == "":
		return q, errors.New("a request for permission must name a tool")
	case q.Kind == question.KindText && strings.TrimSpace(q.Text) == "":
		return q, errors.New("a question must have a text")
	case q.Kind != question.KindPermission && q.Kind != question.KindText:
		return q, fmt.Errorf("the kind of a question must be %q or %q", question.KindPermission, question.KindText)
	}
	return q, nil
}

// truncateUTF8 returns the first limit bytes of the text as valid UTF-8 without NUL. The result can be longer than limit, because
// U+FFFD replaces invalid parts.
func truncateUTF8(s string, limit int) string {
	s = strings.ToValidUTF8(s[:min(len(s), limit)], "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

// maxValue is the size limit, in bytes, for texts in a tool's input that is too long for the journal.
const maxValue = 2 << 10

// shownInput returns the tool's input as it is shown to people: an object. If the input is too long or has text that cannot be
// stored, all values become texts, long texts are shortened, and some fields may be left out. shownInput returns nil if the input
// is not an object.
func shownInput(input json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil || fields == nil {
		return nil
	}
	if len(input) <= maxInput && utf8.Valid(input) && !bytes.Contains(input, []byte(`\u0000`)) {
		return input
	}
	short := map[string]string{}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		if len(text) > maxValue {
			text = fmt.Sprintf("%s… (%d bytes)", truncateUTF8(text, maxValue), len(text))
		}
		name = truncateUTF8(name, maxLabel)
		if total += len(name) + len(text); total > maxInput/2 {
			break
		}
		short[name] = truncateUTF8(text, len(text))
	}
	b, err := json.Marshal(short)
	if err != nil {
		return nil
	}
	return b
}
