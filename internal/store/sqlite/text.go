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
	containsText = `(instr(lower(description), lower(?)) > 0 OR instr(lower(summary), lower(?)) > 0)`
	// hasText is true for the tasks that the full-text index would find for an ASCII text. The text must be given in lower
	// case. Like the index, it treats the Kelvin sign as k and the long s as s. No other character equals an ASCII letter.
	hasText   = `(instr(` + foldBegin + `tasks.description` + foldEnd + `, ?) > 0 OR instr(` + foldBegin + `tasks.summary` + foldEnd + `, ?) > 0)`
	foldBegin = `lower(replace(replace(`
	foldEnd   = `, char(0x212A), 'k'), char(0x17F), 's'))`

	textRows = `(SELECT rowid FROM tasks_text WHERE tasks_text MATCH ?)`
	// selectSampleRow skips the given number of rows with a trigram, and selects the number of the next one. The higher this
	// number, the fewer tasks have the trigram. It selects nothing if too few tasks have the trigram.
	selectSampleRow = `SELECT rowid FROM tasks_text WHERE tasks_text MATCH ? LIMIT 1 OFFSET ?`
)

const (
	// trigramLength is the length of a trigram, in characters. The full-text index splits texts into trigrams, so it cannot
	// find a shorter text.
	trigramLength = 3
	// The index searches for all trigrams of a text, and reads the rows of each of them. So a trigram that most tasks have costs
	// more than it saves. If a text is at least as long as minTrigrams trigrams, it is faster to search only for its maxTrigrams
	// rarest trigrams, and then to check which tasks contain the whole text.
	minTrigrams, maxTrigrams = 3, 3
	// sampleSize is how many occurrences of a trigram are examined to estimate how frequent it is.
	sampleSize = 200
)

// isIndexed reports whether the full-text index can find the text.
func isIndexed(text string) bool { return utf8.RuneCountInString(text) >= trigramLength }

// addText adds the condition that a task contains the text to a query from fromTextIndex. isIndexed must be true for the text.
func (t *baseTx) addText(q *taskQuery, text string) error {
	const condition = `tasks_text MATCH ?`
	if len(text) < minTrigrams*trigramLength || !isASCII(text) {
		q.add(condition, quotePhrase(text))
		return nil
	}
	text = strings.ToLower(text)
	match, err := t.rareTrigrams(text)
	q.add(condition, match)
	q.add(hasText, text, text)
	return err
}

// rareTrigrams returns a query for the index that searches for the rarest trigrams of the text. It chooses trigrams that
// do not overlap, because overlapping trigrams occur together.
func (t *baseTx) rareTrigrams(text string) (match string, err error) {
	type trigram struct {
		offset int
		rows   int64 // the result of selectSampleRow: the higher, the fewer tasks have the trigram
	}
	var trigrams []trigram
	known := map[string]bool{}
	for offset := range len(text) - trigramLength + 1 {
		p := text[offset : offset+trigramLength]
		if known[p] {
			continue
		}
		known[p] = true
		n, err := record.QueryFirst(t, record.ScanInt64, selectSampleRow, quotePhrase(p), sampleSize)
		if err != nil {
			return "", err
		}
		if n == 0 {
			n = math.MaxInt64
		}
		trigrams = append(trigrams, trigram{offset, n})
	}
	slices.SortStableFunc(trigrams, func(a, b trigram) int { return cmp.Compare(b.rows, a.rows) })
	var chosen []trigram
	for _, p := range trigrams {
		overlaps := func(c trigram) bool { return p.offset < c.offset+trigramLength && c.offset < p.offset+trigramLength }
		if len(chosen) < maxTrigrams && !slices.ContainsFunc(chosen, overlaps) {
			chosen = append(chosen, p)
		}
	}
	var texts []string
	for _, p := range chosen {
		texts = append(texts, quotePhrase(text[p.offset:p.offset+trigramLength]))
	}
	return strings.Join(texts, ` AND `), nil
}

// quotePhrase returns the text as a phrase in the language of the full-text index.
func quotePhrase(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }

// isASCII reports whether the text consists of ASCII characters, none of them NUL.
func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r == 0 || r >= utf8.RuneSelf })
}
