package mailbox

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"time"
)

// writeTimeout is how long writing a message may block.
const writeTimeout = 2 * time.Second

// maxReceipt limits the length of a receipt, in bytes. The process that writes receipts belongs to the agent.
const maxReceipt = 4 << 10

// Sender is the supervisor's side of a mailbox.
type Sender struct {
	conn  *os.File
	onAck func(id string)

	mu      sync.Mutex
	written map[string]chan struct{} // the messages that were written, by id; the channel is closed when the message was taken
	closed  bool                     // the mailbox accepts no more messages
	ended   chan struct{}            // closed when the connection has ended
}

// NewSender returns a Sender that uses the socket. It calls onAck once for each message that the program has taken.
func NewSender(conn *os.File, onAck func(id string)) *Sender {
	s := &Sender{conn: conn, onAck: onAck, written: map[string]chan struct{}{}, ended: make(chan struct{})}
	go s.receive()
	return s
}

// Send writes the message, unless a message with the same id was written before, and waits until the program has taken
// it. It returns ErrClosed if the mailbox is closed before that, and ErrNotRead if the client does not read its messages.
func (s *Sender) Send(m Message) error {
	s.mu.Lock()
	taken, known := s.written[m.ID]
	if !known {
		if s.closed {
			s.mu.Unlock()
			return ErrClosed
		}
		if err := s.write(senderLine{Message: m}); err != nil {
			s.mu.Unlock()
			return err
		}
		taken = make(chan struct{})
		s.written[m.ID] = taken
	}
	s.mu.Unlock()
	select {
	case <-taken:
		return nil
	case <-s.ended:
	}
	select {
	case <-taken:
		return nil
	default:
		return ErrClosed
	}
}

// write writes a line. If it can write only a part of the line, it ends the mailbox. The caller must hold s.mu.
func (s *Sender) write(n senderLine) error {
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	wrote, err := s.conn.Write(append(line, '\n'))
	switch {
	case err == nil:
		return nil
	case wrote == 0 && os.IsTimeout(err):
		return ErrNotRead
	}
	s.end()
	return ErrClosed
}

// receive reads receipts until the connection ends.
func (s *Sender) receive() {
	lines := bufio.NewScanner(s.conn)
	lines.Buffer(make([]byte, 0, maxReceipt), maxReceipt)
	for lines.Scan() {
		var r receipt
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			s.handle(r)
		}
	}
	s.Close()
}

func (s *Sender) handle(r receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if taken := s.written[r.MessageID]; taken != nil {
		select {
		case <-taken:
		default:
			s.onAck(r.MessageID)
			close(taken)
		}
	}
	if r.Close && r.ReadCount == len(s.written) && !s.closed {
		s.closed = true
		_ = s.write(senderLine{Closed: true})
	}
}

// Close ends the mailbox. Send returns ErrClosed for messages that were not taken.
func (s *Sender) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// end ends the mailbox and closes the connection. The caller must hold s.mu.
func (s *Sender) end() {
	s.closed = true
	select {
	case <-s.ended:
	default:
		close(s.ended)
		_ = s.conn.Close()
	}
}
