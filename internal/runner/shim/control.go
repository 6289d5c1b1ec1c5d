package shim

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/mailbox"
)

// controlRequest is a request of a client to the shim: one line of JSON over the control socket.
type controlRequest struct {
	Op     string `json:"op"` // interrupt, message, answer, watch or attach
	Kill   bool   `json:"kill,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Linger is how long an active request of the child to its model may take to complete. 0 means most of Spec.Grace.
	Linger time.Duration `json:"linger,omitempty"`
	// confirmed is closed when the supervisor has handled the interrupt. If the child has no active request and reports its
	// turns, the supervisor first waits until the turn has ended, or for turnTimeout.
	confirmed chan struct{}
	ID        string `json:"id,omitempty"` // id of the message, or of the answered question
	Text      string `json:"text,omitempty"`
	// Message and By belong to an answer: its message, and the name of the person who gave it.
	Message string `json:"message,omitempty"`
	By      string `json:"by,omitempty"`
	// Remember makes the rules of the answered question allow further calls of the run.
	Remember bool `json:"remember,omitempty"`
}

// reply is the answer to a controlRequest, one line of JSON. A message has two replies: the first is Accepted, and the second
// follows when the child has taken the message, which may be much later. A watch has no reply. Instead, the client gets a byte
// after one or more changes, until the shim ends and the connection is closed. After the reply to an attach, the connection
// carries a terminal: see terminalInput.
type reply struct {
	Accepted bool   `json:"accepted,omitempty"`
	Error    string `json:"error,omitempty"`
}

// Values of reply.Error.
const (
	replyEnded       = "ended"   // the child has ended
	replyFull        = "full"    // the child does not read its messages
	replyNotStored   = "store"   // an answer cannot be stored, probably because the disk is full
	replyNotAccepted = "none"    // the child accepts no messages, or has no terminal that is free
	replyUnknown     = "unknown" // there is no such question
	replyClosed      = "closed"  // the child no longer waits for the answer
)

// messagesFile holds the ids of the messages that the child got, one per line.
const messagesFile = "messages"

// messageTimeout is how long writing a message to a pipe, or input to a terminal, may block.
const messageTimeout = 2 * time.Second

// control serves the control socket.
type control struct {
	listener   net.Listener
	interrupts chan controlRequest // interrupts, for the supervisor
	done       chan struct{}       // closed when the supervisor takes no more interrupts

	questions *questions      // nil if the child cannot ask questions
	messages  *os.File        // a pipe from which the child reads messages as lines; nil if there is none
	mailbox   *mailbox.Sender // for messages that the child confirms; nil if there is none
	terminal  *terminal       // nil if the child has none

	messageMu sync.Mutex      // held while a message is written to the pipe; protects the next three fields
	sentIDs   map[string]bool // ids of the messages that were written to the pipe
	partial   message         // the rest of a message that did not fit the pipe; empty if there is none
	ended     bool            // the run has ended

	mu       sync.Mutex // protects watchers
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
	var req controlRequest
	from := json.NewDecoder(conn)
	if err := from.Decode(&req); err != nil {
		return
	}
	switch req.Op {
	case "attach":
		c.attach(conn, from)
	case "watch":
		c.watch(conn)
	case "interrupt":
		req.confirmed = make(chan struct{})
		select {
		case c.interrupts <- req:
			<-req.confirmed
			_ = json.NewEncoder(conn).Encode(reply{})
		case <-c.done:
			_ = json.NewEncoder(conn).Encode(reply{Error: replyEnded})
		}
	case "message":
		_ = json.NewEncoder(conn).Encode(reply{Accepted: true})
		_ = json.NewEncoder(conn).Encode(reply{Error: c.deliver(req.ID, req.Text)})
	case "answer":
		r := reply{Error: replyUnknown}
		if c.questions != nil {
			r.Error = c.questions.answer(req)
		}
		_ = json.NewEncoder(conn).Encode(r)
	}
}

// watch notifies the client of changes. It merges notifications that the client does not read, so that a slow client
// cannot block the shim.
func (c *control) watch(conn net.Conn) {
	notifications := make(chan struct{}, 1)
	notifications <- struct{}{} // something may have changed before the watch began
	c.mu.Lock()
	c.watchers[notifications] = struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.watchers, notifications)
		c.mu.Unlock()
	}()
	for range notifications {
		if _, err := conn.Write([]byte{'.'}); err != nil {
			return
		}
	}
}

func (c *control) notifyWatchers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		notify(w)
	}
}

// notify sends to the channel, unless an earlier notification is still unread.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// deliver delivers the message to the child, unless the child already has a message with the id. It returns the error for the
// reply, or an empty string. With a mailbox, it waits until the child has confirmed the message. With a pipe, it returns when the
// line is written.
func (c *control) deliver(id, text string) string {
	switch {
	case c.mailbox != nil:
		switch err := c.mailbox.Send(mailbox.Message{ID: id, Text: text}); {
		case errors.Is(err, mailbox.ErrNotRead):
			return replyFull
		case err != nil:
			return replyEnded
		}
		return ""
	case c.messages == nil:
		return replyNotAccepted
	}
	c.messageMu.Lock()
	defer c.messageMu.Unlock()
	switch {
	case c.sentIDs[id]:
		return ""
	case c.ended:
		return replyEnded
	}
	if c.partial.id != "" {
		if problem := c.write(c.partial); problem != "" || c.sentIDs[id] {
			return problem
		}
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return c.write(message{id, text})
}

// message is a message for the pipe, or the rest of one.
type message struct{ id, text string }

// write writes m to the pipe. If it does not fit, the next call must write the rest, which is then c.partial.
func (c *control) write(m message) (problem string) {
	_ = c.messages.SetWriteDeadline(time.Now().Add(messageTimeout))
	n, err := c.messages.WriteString(m.text)
	switch {
	case os.IsTimeout(err):
		if n > 0 {
			c.partial = message{m.id, m.text[n:]}
		}
		return replyFull
	case err != nil:
		return replyEnded
	}
	c.partial = message{}
	c.sentIDs[m.id] = true
	recordMessage(m.id)
	return ""
}

// recordMessage records that the child has the message. If this fails, a repeated message is refused after the end of
// the run.
func recordMessage(id string) {
	if f, err := agentfile.OpenAppend(messagesFile); err == nil {
		_, _ = f.WriteString(id + "\n")
		_ = f.Close()
	}
}

// finish waits for the message that is being written. Afterwards, deliver writes no more messages.
func (c *control) finish() {
	c.messageMu.Lock()
	defer c.messageMu.Unlock()
	c.ended = true
	if c.mailbox != nil {
		c.mailbox.Close()
	}
}
