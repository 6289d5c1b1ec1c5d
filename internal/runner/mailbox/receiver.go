package mailbox

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"syscall"
)

// Receiver is the client's side of a mailbox.
type Receiver struct {
	conn     *os.File
	messages chan Message
	closed   chan struct{} // closed when no more messages will come

	mu        sync.Mutex
	readCount int // number of messages that were offered on the channel messages
}

// Open returns the Receiver for the socket with the file descriptor. If fd is 0, no messages come.
func Open(fd int) *Receiver {
	r := &Receiver{messages: make(chan Message), closed: make(chan struct{})}
	if fd == 0 {
		close(r.closed)
		return r
	}
	syscall.CloseOnExec(fd)           // the agent's program must not inherit the socket
	_ = syscall.SetNonblock(fd, true) // so that Close ends a read
	r.conn = os.NewFile(uintptr(fd), "mailbox")
	go r.receive()
	return r
}

// Messages returns a channel of messages. It is never closed; see Closed.
func (r *Receiver) Messages() <-chan Message { return r.messages }

// Closed returns a channel that is closed when no more messages will come.
func (r *Receiver) Closed() <-chan struct{} { return r.closed }

// receive reads each message as soon as it arrives, so that the sender is never blocked, and offers the messages one after the other.
func (r *Receiver) receive() {
	arrived := make(chan Message)
	go func() {
		defer close(arrived)
		for lines := bufio.NewReader(r.conn); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			var n senderLine
			switch err := json.Unmarshal(line, &n); {
			case err != nil:
			case n.Closed:
				return
			default:
				arrived <- n.Message
			}
		}
	}()
	defer close(r.closed)
	var queue []Message
	offered := false
	for open := true; open || len(queue) > 0; {
		var offer chan<- Message
		var next Message
		if len(queue) > 0 {
			offer, next = r.messages, queue[0]
			if !offered {
				offered = true
				r.mu.Lock()
				r.readCount++
				r.mu.Unlock()
			}
		}
		select {
		case offer <- next:
			queue, offered = queue[1:], false
		case m, ok := <-arrived:
			if !ok {
				open, arrived = false, nil
			} else {
				queue = append(queue, m)
			}
		}
	}
}

// Ack confirms that the program has taken the message.
func (r *Receiver) Ack(id string) { r.send(receipt{MessageID: id}) }

// RequestClose asks the sender to accept no more messages. Afterwards, either another message comes, or Closed is closed. Call
// RequestClose again after each message.
func (r *Receiver) RequestClose() {
	r.mu.Lock()
	n := r.readCount
	r.mu.Unlock()
	r.send(receipt{Close: true, ReadCount: n})
}

// Next returns the next message. It returns false if the sender has no message and will send no more. The client must
// have received all earlier messages.
func (r *Receiver) Next() (Message, bool) {
	r.RequestClose()
	select {
	case m := <-r.messages:
		return m, true
	case <-r.closed:
		return Message{}, false
	}
}

// send writes a receipt. It ignores errors: an error means that the supervisor has ended, and the run with it.
func (r *Receiver) send(x receipt) {
	if r.conn == nil {
		return
	}
	if line, err := json.Marshal(x); err == nil {
		_, _ = r.conn.Write(append(line, '\n'))
	}
}

// Close closes the connection. No message can be acknowledged afterwards.
func (r *Receiver) Close() {
	if r.conn != nil {
		_ = r.conn.Close()
	}
}
