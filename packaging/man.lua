-- A manual page has no links: only their text stays.
function Link(link)
  return link.content
end
