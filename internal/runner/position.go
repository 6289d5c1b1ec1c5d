package runner

import (
	"fmt"
	"strconv"
	"strings"

	"fleet/internal/fleet"
)

// position is a position in a run's output. offset is in bytes. If several pieces begin at the offset, piece is how
// many of them are before the position.
type position struct {
	offset int64
	piece  int
}

// String returns the position as a cursor, for parsePosition.
func (p position) String() string {
	if p.piece == 0 {
		return strconv.FormatInt(p.offset, 10)
	}
	return fmt.Sprintf("%d.%d", p.offset, p.piece)
}

func (p position) before(q position) bool {
	return p.offset < q.offset || p.offset == q.offset && p.piece < q.piece
}

// parsePosition parses a cursor. An empty cursor means the beginning of the output.
func parsePosition(cursor string) (position, error) {
	if cursor == "" {
		return position{}, nil
	}
	offset, piece, hasPiece := strings.Cut(cursor, ".")
	var p position
	var err error
	if p.offset, err = strconv.ParseInt(offset, 10, 64); err == nil && hasPiece {
		p.piece, err = strconv.Atoi(piece)
	}
	if err != nil || p.offset < 0 || p.piece < 0 {
		return position{}, fleet.InvalidField("cursor", "%q is not a cursor of this run: use a cursor from the run's output", cursor)
	}
	return p, nil
}
