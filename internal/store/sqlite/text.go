package sqlite

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"fleet/internal/store/record"
)

const (
	hasChars = `(instr(lower(description), lower(?)) > 0 OR instr(lower(summary), lower(?)) > 0)`
	// hasText is true for the tasks that the full-text index would find for an ASCII text. The text must be given in lower
	// case. Like the index, it treats the Kelvin sign as k and the long s as s. No other character equals an ASCII letter.
	hasText  = `(instr(` + folded + `tasks.description` + unfolded + `, ?) > 0 OR instr(` + folded + `tasks.summary` + unfolded + `, ?) > 0)`
	folded   = `lower(replace(replace(`
	unfolded = `, char(0x212A), 'k'), char(0x17F), 's'))`

	textRows = `(SELECT rowid FROM tasks_text WHERE tasks_text MATCH ?)`
	// sampleRow returns the row at which a piece has been found a given number of times. The higher the row, the fewer tasks
	// have the piece.
	sampleRow = `SELECT rowid FROM tasks_text WHERE tasks_text MATCH ? LIMIT 1 OFFSET ?`
)

const (
	// minIndexed is the length of the pieces into which the full-text index splits texts, in characters. The index cannot
	// find a shorter text.
	minIndexed = 3
	// The index searches for all pieces of a text. For a text of at least minPieces pieces, it is faster to search only
	// for its piecesSought rarest ones, and then to check which tasks have the whole text. The index reads the rows of
	// every piece, so a piece that most tasks have costs more than it saves.
	minPieces, piecesSought = 3, 3
	// sampleSize is how many occurrences of a piece are examined to estimate how frequent the piece is.
	sampleSize = 200
)

// isIndexed reports whether the full-text index can find the text.
func isIndexed(text string) bool { return utf8.RuneCountInString(text) >= minIndexed }

// addText adds the condition that a task has the text to a query that reads tasks_text. The index must be able to find the
// text.
func (t *readTx) addText(q *taskQuery, text string) error {
	const condition = `tasks_text MATCH ?`
	if len(text) < minPieces*minIndexed || !isASCII(text) {
		q.add(condition, quotePhrase(text))
		return nil
	}
	text = strings.ToLower(text)
	match, err := t.rarePieces(text)
	q.add(condition, match)
	q.add(hasText, text, text)
	return err
}

// rarePieces returns a query for the index that searches for the rarest pieces of the text. It chooses pieces that do
// not overlap, because overlapping pieces occur together.
func (t *readTx) rarePieces(text string) (match string, err error) {
	type piece struct {
		at   int
		rows int64 // the result of sampleRow: the higher, the fewer tasks have the piece
	}
	var pieces []piece
	known := map[string]bool{}
	for at := range len(text) - minIndexed + 1 {
		p := text[at : at+minIndexed]
		if known[p] {
			continue
		}
		known[p] = true
		n, err := record.QueryFirst(t, record.ScanInt64, sampleRow, quotePhrase(p), sampleSize)
		if err != nil {
			return "", err
		}
		if n == 0 {
			n = math.MaxInt64
		}
		pieces = append(pieces, piece{at, n})
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Compare(b.rows, a.rows) })
	var chosen []piece
	for _, p := range pieces {
		overlaps := func(c piece) bool { return p.at < c.at+minIndexed && c.at < p.at+minIndexed }
		if len(chosen) < piecesSought && !slices.ContainsFunc(chosen, overlaps) {
			chosen = append(chosen, p)
		}
	}
	var texts []string
	for _, p := range chosen {
		texts = append(texts, quotePhrase(text[p.at:p.at+minIndexed]))
	}
	return strings.Join(texts, ` AND `), nil
}

// quotePhrase returns the text as a phrase in the language of the full-text index.
func quotePhrase(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r == 0 || r >= utf8.RuneSelf })
}
