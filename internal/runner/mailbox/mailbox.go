// Package mailbox passes messages from the supervisor of a run to a client process, which talks to the agent's program,
// and receipts back.
//
// The supervisor has a Sender, and the client process a Receiver. A message counts as delivered when the Receiver has
// confirmed that the program has taken it. Each side writes one JSON object per line. Before the client ends, it asks
// the Sender to accept no more messages, so no message is lost between the two.
package mailbox

import (
	"errors"
	"os"
	"syscall"
)

// Message is a message to the agent.
type Message struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// senderLine is a line from the Sender: a message, or the confirmation that no more messages will come.
type senderLine struct {
	Message
	Closed bool `json:"closed,omitempty"`
}

// receipt is a line from the Receiver.
type receipt struct {
	MessageID string `json:"taken,omitempty"` // the id of a message that the program has taken
	Close     bool   `json:"done,omitempty"`  // asks the Sender to close if it has written no more messages than ReadCount
	ReadCount int    `json:"read,omitempty"`  // number of messages that the Receiver has offered to the client
}

// Errors of Send.
var (
	ErrClosed  = errors.New("no more messages are accepted")
	ErrNotRead = errors.New("messages are not read")
)

// Pair returns two connected sockets: one for NewSender, and one, as a file descriptor, for the process that calls Open.
func Pair() (sender *os.File, receiver int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, 0, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range fds {
		syscall.CloseOnExec(fd)
	}
	_ = syscall.SetNonblock(fds[0], true) // so that writes have deadlines, and Close ends a read
	return os.NewFile(uintptr(fds[0]), "mailbox"), fds[1], nil
}
