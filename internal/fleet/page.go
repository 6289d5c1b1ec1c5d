package fleet

import (
	"math"
	"strconv"
)

// Page sizes, in items.
const (
	DefaultPageSize = 20
	MaxPageSize     = 100
)

// PageRequest says which part of a list a caller requests. Nil means not given.
type PageRequest struct {
	Page, PageSize *int
	Cursor         string // the cursor that the previous part came with, instead of Page; "" for the beginning
	Limit          *int   // at most this many items, even if the page is larger
}

// Resolve returns the number of the page, by default 1, and its size, by default defaultSize. It clamps a given size to 1 to
// MaxPageSize, and returns INVALID_PAGE if the number is less than 1.
func (r PageRequest) Resolve(defaultSize int) (page, size int, err error) {
	page, size = 1, defaultSize
	if r.Page != nil {
		page = *r.Page
	}
	if r.PageSize != nil {
		size = min(max(*r.PageSize, 1), MaxPageSize)
	}
	if page < 1 {
		return 0, 0, Invalid(ReasonInvalidPage, "page", "page is %d: pages count from 1", page)
	}
	return page, size, nil
}

// Window returns which items are requested: count items after the first offset ones. A page size that is not given is
// defaultSize. If that is 0, it is MaxPageSize for a request with a page number, and all items otherwise.
func (r PageRequest) Window(defaultSize int) (offset, count int, err error) {
	if r.Cursor != "" && r.Page != nil {
		return 0, 0, InvalidField("cursor", "cursor and page are both given, give one: a cursor continues where an answer ended, a page counts from the beginning")
	}
	page, count, err := r.Resolve(defaultSize)
	if err != nil {
		return 0, 0, err
	}
	if count == 0 {
		if count = math.MaxInt; r.Page != nil {
			count = MaxPageSize
		}
	}
	if page > 1 {
		if offset = math.MaxInt; page-1 <= math.MaxInt/count {
			offset = (page - 1) * count
		}
	}
	if r.Cursor != "" {
		n, err := strconv.ParseUint(r.Cursor, 10, 31)
		if err != nil {
			return 0, 0, InvalidField("cursor", "cursor %q is not valid: give the next_cursor of an answer", Shorten(r.Cursor, 40))
		}
		offset = int(n) //nolint:gosec // of 31 bits
	}
	if r.Limit != nil {
		if *r.Limit < 1 {
			return 0, 0, InvalidField("limit", "limit is %d: give at least 1", *r.Limit)
		}
		count = min(count, *r.Limit)
	}
	return offset, count, nil
}

// Paginate returns the requested items of the list, and the cursor after them; "" at the end. A part beyond the end is
// empty.
func Paginate[T any](all []T, r PageRequest, defaultSize int) (part []T, next string, err error) {
	offset, count, err := r.Window(defaultSize)
	if err != nil {
		return nil, "", err
	}
	offset = min(offset, len(all))
	part = all[offset : offset+min(count, len(all)-offset)]
	return part, NextCursor(offset, len(part), len(all)), nil
}

// NextCursor returns the cursor after n items from the offset in a list of all items; "" at the end of the list, and if n is 0.
func NextCursor(offset, n, all int) string {
	if n == 0 || offset+n >= all {
		return ""
	}
	return strconv.Itoa(offset + n)
}
