-- Replaces each link by its text, since manual pages have no links. The name of another page follows the text.
function Link(link)
  local page = link.target:match("^[%w-]+%.md")
  if page then
    link.content:extend({ pandoc.Space(), pandoc.Str("(docs/" .. page .. ")") })
  end
  return link.content
end
