package shim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/acp"
	"fleet/internal/runner/ask"
)

// Asks says that the child may ask, see package ask.
type Asks struct {
	acp.Rules               // answer requests for permission before anybody is asked
	Timeout   time.Duration `json:"timeout"` // how long a question waits for its answer
}

// Limits of what one run can ask. The child can write what it likes into its directory.
const (
	maxOpen     = 20       // questions that wait for an answer
	maxRecorded = 500      // questions in the journal
	maxJournal  = 16 << 20 // bytes of it
	maxNames    = 1000     // questions whose answers the child has not fetched
	maxText     = 16 << 10 // bytes of a question
	maxInput    = 64 << 10 // bytes of the input of a tool in the journal
	maxOptions  = 20
	maxWord     = 200 // bytes of the name of a tool, or of an option
)

// PolicyName is who answered a request for permission that the run's rules answer.
const PolicyName = "policy"

// asks takes the questions of the child, and gives it the answers.
type asks struct {
	spec  Asks
	run   Run
	grown func() // the journal has grown
	pipe  *os.File
	read  chan struct{} // closed when the pipe is not read any more

	mu      sync.Mutex
	journal *os.File
	torn    bool              // its last line is not whole
	written int               // bytes of it
	names   map[string]string // by the child's names, the ids of questions; empty: it was not recorded
	open    map[string]*asked // by id
	closed  map[string]string // the statuses of others, by id
	over    bool
}

// asked is a question that waits for its answer.
type asked struct {
	name string
	kind string
	due  *time.Timer
}

// newAsks makes what questions need in the run's directory, which is the current one.
func newAsks(spec Asks, run Run, grown func()) (*asks, error) {
	for _, dir := range []string{ask.Dir, ask.Answers} {
		if err := os.MkdirAll(run.Path(dir), 0o700); err != nil {
			return nil, err
		}
	}
	if err := syscall.Mkfifo(run.Path(ask.Pipe), 0o600); err != nil {
		return nil, fmt.Errorf("the pipe for questions cannot be made: %w", err)
	}
	// For reading and writing: it has no end then, whoever opens and closes it.
	pipe, err := os.OpenFile(run.Path(ask.Pipe), os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	journal, err := agentfile.Create(run.Path(ask.Journal))
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	return &asks{
		spec: spec, run: run, grown: grown, pipe: pipe, journal: journal, read: make(chan struct{}),
		names: map[string]string{}, open: map[string]*asked{}, closed: map[string]string{},
	}, nil
}

var askLine = regexp.MustCompile(`^(ask|got|drop) ([A-Za-z0-9]{1,40})$`)

// serve reads the pipe until finish closes it.
func (a *asks) serve() {
	defer close(a.read)
	lines := bufio.NewReader(a.pipe)
	for whole := true; ; {
		line, err := lines.ReadSlice('\n')
		first := whole
		whole = err == nil
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		m := askLine.FindSubmatch(bytes.TrimSuffix(line, []byte("\n")))
		if m == nil || !first || !whole {
			continue
		}
		switch name := string(m[2]); string(m[1]) {
		case ask.VerbAsk:
			a.ask(name)
		case ask.VerbGot:
			a.got(name)
		case ask.VerbDrop:
			a.drop(name)
		}
	}
}

// ask takes the question of the name.
func (a *asks) ask(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.names[name]; known || a.over || len(a.names) >= maxNames {
		return
	}
	a.names[name] = ""
	q, err := readQuestion(a.run.Path(filepath.Join(ask.Dir, name+".json")))
	if err != nil {
		a.refuse(name, err.Error())
		return
	}
	now := time.Now().UTC()
	r := ask.Record{
		ID: strconv.Itoa(len(a.open) + len(a.closed) + 1), Status: ask.Waiting, Kind: q.Kind, Text: clean(q.Text, maxText), Tool: clean(q.Tool, maxWord),
		Input: shown(q.Input), AskedAt: now, ExpiresAt: now.Add(a.spec.Timeout),
	}
	for _, o := range q.Options[:min(len(q.Options), maxOptions)] {
		r.Options = append(r.Options, clean(o, maxWord))
	}
	if q.Kind == ask.Permission {
		if allowed, decided, why := a.spec.Decide(q.Tool, q.Text, q.Sort, q.Input); decided {
			r.Status, r.Answer, r.Message, r.By, r.AnsweredAt = ask.Answered, ask.Deny, why, PolicyName, now
			if allowed {
				r.Answer = ask.Allow
			}
			if a.room() && a.record(r) == nil { // what the rules say holds also when it cannot be recorded
				a.names[name], a.closed[r.ID] = r.ID, r.Status
			}
			a.give(name, ask.Answer{Status: r.Status, Answer: r.Answer, Message: r.Message, By: r.By})
			return
		}
	}
	switch {
	case len(a.open) >= maxOpen:
		a.refuse(name, fmt.Sprintf("%d questions wait for an answer already", maxOpen))
	case !a.room():
		a.refuse(name, "the task has asked too much")
	case a.record(r) != nil:
		a.refuse(name, "the question cannot be kept: the disk of this machine may be full")
	default:
		a.names[name] = r.ID
		a.open[r.ID] = &asked{name: name, kind: q.Kind, due: time.AfterFunc(a.spec.Timeout, func() { a.expire(r.ID) })}
	}
}

// room reports whether the journal takes another question.
func (a *asks) room() bool {
	return len(a.open)+len(a.closed) < maxRecorded && a.written < maxJournal
}

// got forgets an answer that the child has.
func (a *asks) got(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id, known := a.names[name]; known && a.open[id] == nil {
		_ = os.Remove(a.run.Path(filepath.Join(ask.Answers, name)))
		delete(a.names, name)
	}
}

// drop withdraws a question that the child does not wait for any more.
func (a *asks) drop(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := a.names[name]
	if a.open[id] != nil && a.record(ask.Record{ID: id, Status: ask.Withdrawn}) == nil {
		a.close(id, ask.Withdrawn)
	}
	if a.open[id] == nil {
		delete(a.names, name)
	}
}

// expire denies a question that nobody has answered in time.
func (a *asks) expire(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.open[id]
	if q == nil || a.over {
		return
	}
	_ = a.record(ask.Record{ID: id, Status: ask.Expired}) // Fleet sees from ExpiresAt too that nobody waits
	a.close(id, ask.Expired)
	a.give(q.name, ask.Answer{Status: ask.Expired})
}

// answer gives the child the answer to a question. What it returns is for a reply.
func (a *asks) answer(o order) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.open[o.ID]
	switch {
	case a.closed[o.ID] == ask.Answered:
		return ""
	case a.over:
		return errEnded
	case a.closed[o.ID] != "":
		return errClosed
	case q == nil:
		return errUnknown
	}
	text := o.Text
	if q.kind == ask.Permission && text != ask.Allow {
		text = ask.Deny
	}
	r := ask.Record{ID: o.ID, Status: ask.Answered, Answer: text, Message: o.Message, By: o.By, AnsweredAt: time.Now().UTC()}
	if err := a.record(r); err != nil {
		return errFull
	}
	a.close(o.ID, ask.Answered)
	a.give(q.name, ask.Answer{Status: r.Status, Answer: r.Answer, Message: r.Message, By: r.By})
	return ""
}

func (a *asks) close(id, status string) {
	a.open[id].due.Stop()
	delete(a.open, id)
	a.closed[id] = status
}

// refuse answers a question that is not taken.
func (a *asks) refuse(name, why string) { a.give(name, ask.Answer{Status: ask.Refused, Message: why}) }

// give writes the answer where the child looks for it. A child that does not get it has ended, or waits until it is ended.
func (a *asks) give(name string, answer ask.Answer) {
	b, err := json.Marshal(answer)
	if err == nil {
		err = WriteFile(a.run.Path(filepath.Join(ask.Answers, name)), b, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "an answer cannot be written:", err)
	}
}

// record appends to the journal.
func (a *asks) record(r ask.Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if b = append(b, '\n'); a.torn {
		b = append([]byte{'\n'}, b...)
	}
	n, err := a.journal.Write(b)
	a.written += n
	a.torn = err != nil && (n > 0 || a.torn)
	if err == nil {
		a.grown()
	}
	return err
}

// finish withdraws what is open, and takes no more.
func (a *asks) finish() {
	a.mu.Lock()
	a.over = true
	for id := range a.open {
		_ = a.record(ask.Record{ID: id, Status: ask.Withdrawn}) // the end of the run says the same
		a.close(id, ask.Withdrawn)
	}
	_ = a.pipe.Close()
	_ = a.journal.Close()
	a.mu.Unlock()
	<-a.read
}

func readQuestion(path string) (ask.Question, error) {
	var q ask.Question
	b, err := agentfile.Read(path, ask.MaxQuestion)
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	switch {
	case err != nil:
		return q, errors.New("the question cannot be read")
	case q.Kind == ask.Permission && q.Tool == "":
		return q, errors.New("a request for permission must name a tool")
	case q.Kind == ask.Text && strings.TrimSpace(q.Text) == "":
		return q, errors.New("a question must have a text")
	case q.Kind != ask.Permission && q.Kind != ask.Text:
		return q, fmt.Errorf("the kind of a question is %q or %q", ask.Permission, ask.Text)
	}
	return q, nil
}

// clean returns at most limit bytes of a text, as valid text.
func clean(s string, limit int) string {
	s = strings.ToValidUTF8(s[:min(len(s), limit)], "\uFFFD")
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}

// maxValue is how long the texts in the input of a tool can be where the input is too long for the journal, in bytes.
const maxValue = 2 << 10

// shown is the input of a tool as people see it: an object, whose long texts are shortened if it is too long.
func shown(input json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(input, &fields) != nil || fields == nil {
		return nil
	}
	if len(input) <= maxInput && utf8.Valid(input) && !bytes.Contains(input, []byte(`\u0000`)) {
		return input
	}
	short := map[string]string{}
	total := 0
	for name, value := range fields {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		if len(text) > maxValue {
			text = fmt.Sprintf("%s… (%d bytes)", clean(text, maxValue), len(text))
		}
		name = clean(name, maxWord)
		if total += len(name) + len(text); total > maxInput/2 {
			break
		}
		short[name] = clean(text, len(text))
	}
	b, err := json.Marshal(short)
	if err != nil {
		return nil
	}
	return b
}
