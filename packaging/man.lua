-- Replaces each link by its text, since manual pages have no links.
function Link(link)
  return link.content
end
