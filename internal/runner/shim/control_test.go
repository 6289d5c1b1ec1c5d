package shim

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLongMessage sends a message that does not fit the pipe while the child does not read. A repetition continues with the rest, also
// after another message.
func TestLongMessage(t *testing.T) {
	t.Chdir(t.TempDir()) // control records the ids in the current directory
	child, pipe, err := os.Pipe()
	require.NoError(t, err)
	defer child.Close()
	defer pipe.Close()
	c := &control{messages: pipe, sentIDs: map[string]bool{}}
	long := strings.Repeat("x", 100_000)
	require.Equal(t, replyFull, c.deliver("1", long))
	require.Equal(t, replyFull, c.deliver("1", long))

	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewReader(child)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	sent := make(chan string)
	go func() {
		sent <- c.deliver("2", "next")
		sent <- c.deliver("1", long)
	}()
	require.Equal(t, long+"\n", <-lines)
	require.Equal(t, "next\n", <-lines)
	require.Empty(t, <-sent)
	require.Empty(t, <-sent)
	require.NoError(t, pipe.Close())
	_, more := <-lines
	require.False(t, more, "a message must arrive once")
}
