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

// order is what a client asks of the shim: one line of JSON over the control socket.
type order struct {
	Op     string `json:"op"` // interrupt, message, answer or watch
	Kill   bool   `json:"kill,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Linger is how long a request of the child to its model may take to end by itself; 0: most of Spec.Grace.
	Linger time.Duration `json:"linger,omitempty"`
	ID     string        `json:"id,omitempty"` // of a message, or of the question that is answered
	Text   string        `json:"text,omitempty"`
	// Of an answer: what is said beside it, and who answers.
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"`
}

// reply is the answer to an order, one line of JSON. A watch has none: it gets a byte each time there is more to see,
// until the shim ends, in whatever way, and with it the connection.
type reply struct {
	Error string `json:"error,omitempty"`
}

const (
	errEnded   = "ended"   // the child reads no more
	errFull    = "full"    // the child does not read what it was sent, or an answer cannot be kept
	errNone    = "none"    // the child takes no messages
	errUnknown = "unknown" // the child has not asked that
	errClosed  = "closed"  // the child does not wait for the answer any more
)

// messagesFile has the ids of the messages that the run was given, a line each.
const messagesFile = "messages"

// messageTimeout is how long a message may wait for the child to make room for it.
const messageTimeout = 2 * time.Second

// control serves the control socket.
type control struct {
	listener net.Listener
	orders   chan order // interrupts, for the supervisor
	done     chan struct{}

	writing  sync.Mutex // one message at a time
	asks     *asks      // nil: asks nothing
	messages *os.File   // nil: takes no messages
	encode   bool       // as JSON strings
	sent     map[string]bool
	over     bool // the run has ended

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
		if c.asks != nil {
			re.Error = c.asks.answer(o)
		}
		_ = json.NewEncoder(conn).Encode(re)
	}
}

// watch tells the client each time there is more to see. What it does not take in time is merged, so one that is slow
// or stuck holds up nobody.
func (c *control) watch(conn net.Conn) {
	more := make(chan struct{}, 1)
	more <- struct{}{} // there may have been something before it came
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

// message writes the text to the child, as a line, unless it has before.
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
	if f, err := agentfile.Create(messagesFile); err == nil { // without it, a message that is sent again after the end is refused
		_, _ = f.WriteString(id + "\n")
		_ = f.Close()
	}
	return ""
}

// finish waits for the message that is being written, and takes no more.
func (c *control) finish() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.over = true
}
