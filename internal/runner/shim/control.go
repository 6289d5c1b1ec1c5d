package shim

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"fleet/internal/place/agentfile"
)

// order is a request of a client to the shim: one line of JSON over the control socket.
type order struct {
	Op     string `json:"op"` // interrupt, message, answer or watch
	Kill   bool   `json:"kill,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Linger is how long an active request of the child to its model may take to complete; 0: most of Spec.Grace.
	Linger time.Duration `json:"linger,omitempty"`
	ID     string        `json:"id,omitempty"` // of a message, or of the answered question
	Text   string        `json:"text,omitempty"`
	// For an answer: its message, and who answers.
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"`
}

// reply is the answer to an order, one line of JSON. A watch has no reply: it gets a byte for each change, until the
// shim ends, which closes the connection.
type reply struct {
	Error string `json:"error,omitempty"`
}

const (
	errEnded   = "ended"   // the child has ended
	errFull    = "full"    // the child does not read, or an answer cannot be stored
	errNone    = "none"    // the child accepts no messages
	errUnknown = "unknown" // there is no such question
	errClosed  = "closed"  // the child no longer waits for the answer
)

// messagesFile holds the ids of the messages that the run got, one per line.
const messagesFile = "messages"

// messageTimeout is how long writing a message may block.
const messageTimeout = 2 * time.Second

// control serves the control socket.
type control struct {
	listener net.Listener
	orders   chan order // interrupts, for the supervisor
	done     chan struct{}

	writing   sync.Mutex // one message at a time
	questions *questions // nil: no questions
	messages  *os.File   // nil: no messages
	encode    bool       // as JSON strings
	sent      map[string]bool
	over      bool // the run has ended

	mu       sync.Mutex
	watchers map[chan struct{}]struct{}
}

func (c *control) serve() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		go c.handle(conn)
	}
}

func (c *control) handle(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var o order
	if err := json.NewDecoder(conn).Decode(&o); err != nil {
		return
	}
	switch o.Op {
	case "watch":
		c.watch(conn)
	case "interrupt":
		select {
		case c.orders <- o:
			_ = json.NewEncoder(conn).Encode(reply{})
		case <-c.done:
			_ = json.NewEncoder(conn).Encode(reply{Error: errEnded})
		}
	case "message":
		_ = json.NewEncoder(conn).Encode(reply{Error: c.message(o.ID, o.Text)})
	case "answer":
		re := reply{Error: errUnknown}
		if c.questions != nil {
			re.Error = c.questions.answer(o)
		}
		_ = json.NewEncoder(conn).Encode(re)
	}
}

// watch notifies the client of changes. Notifications that the client does not read are merged, so a slow client blocks
// nobody.
func (c *control) watch(conn net.Conn) {
	more := make(chan struct{}, 1)
	more <- struct{}{} // something may have changed before
	c.mu.Lock()
	c.watchers[more] = struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.watchers, more)
		c.mu.Unlock()
	}()
	for range more {
		if _, err := conn.Write([]byte{'.'}); err != nil {
			return
		}
	}
}

func (c *control) grown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// message writes the text to the child as a line, unless it did so before.
func (c *control) message(id, text string) string {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.messages == nil {
		return errNone
	}
	switch {
	case c.sent[id]:
		return ""
	case c.over:
		return errEnded
	}
	if c.encode {
		b, err := json.Marshal(text)
		if err != nil {
			return errEnded
		}
		text = string(b)
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_ = c.messages.SetWriteDeadline(time.Now().Add(messageTimeout))
	switch _, err := c.messages.WriteString(text); {
	case os.IsTimeout(err):
		return errFull
	case err != nil:
		return errEnded
	}
	c.sent[id] = true
	if f, err := agentfile.Create(messagesFile); err == nil { // if this fails, a repeated message after the end is refused
		_, _ = f.WriteString(id + "\n")
		_ = f.Close()
	}
	return ""
}

// finish waits for the message that is being written, and accepts no more.
func (c *control) finish() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.over = true
}
